"""Readers of traces: every format by content, its quirks, and every wrong line told."""

from __future__ import annotations

import math
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.traces import read_trace
from sim.traces import counts
from sim.traces.trace import CAP, NO_LOSS, Trace, TraceError, facts

DATA = Path(__file__).parents[3] / "shared" / "data"
BAMBOO = "0,add,node1\n0,add,node2\n60000,remove,node1\n60000,remove,node2\n120000,add,node3\n"
PARCAE = """[0, "add", {"nodes": ["a", "b"], "duration": 60000}]
[60000, "no-op", {"nodes": [], "duration": 60000}]
[120000, "remove", {"nodes": ["b"], "duration": 60000}]
"""
STEPS = "0,2\n100,2\n100,0\n250,1\n400,1\n"
DATED = "2021-12-10, 13:00:00, 8\n2021-12-10, 13:30:00, 5\n2021-12-10, 14:00:00, 8\n"
TRIPLED = """2021-12-10, 13:00:00, 8
2021-12-10, 13:01:00, 8
2021-12-10, 13:02:00, 8
2021-12-10, 13:01:00, 5
2021-12-10, 13:02:00, 5
2021-12-10, 13:03:00, 5
2021-12-10, 14:00:00, 8
"""
SKYPILOT = '{"metadata": {"gap_seconds": 600}, "data": [2, 2, 0, 1, 2], "prices": [0.9, 0.9]}'
POINTS = '[\n{"Time": 0, "GPUs": 4},\n{"Time": 90.0, "GPUs": 2},\n{"Time": 300, "GPUs": 4}\n]\n'
LIFETIMES = """vm,zone,insert_time,life_s,end
a,z1,2019-03-25T12:00:00.5-07:00,3600,preempted
b,z1,2019-03-25T12:30:00.5-07:00,180000,preempted
c,z2,2019-03-25T13:00:00.5-07:00,600,stop
"""
INTERVALS = """# workers: 4, end_s: 1000
worker,zone,gone_s,back_s,cause
1,east,100,150.5,law
0,east,100,,shock
1,east,300,400,law
"""
TEXTS = {
    "bamboo": BAMBOO,
    "parcae": PARCAE,
    "time,count": STEPS,
    "dated count": DATED,
    "skypilot": SKYPILOT,
    "points": POINTS,
    "lifetimes": LIFETIMES,
    "intervals": INTERVALS,
}


def trace_of(text: str | bytes, folder: Path, unit: str = "s") -> Trace:
    file = folder / "a.trace"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_trace(file, unit)


def problem(text: str | bytes, folder: Path) -> str:
    with pytest.raises(TraceError) as caught:
        trace_of(text, folder)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("form", TEXTS)
def test_a_format_is_known_by_its_content(form: str, tmp_path: Path) -> None:
    assert trace_of(TEXTS[form], tmp_path).form == form
    spaced = f"\ufeff# a comment\n\n{TEXTS[form]}\n\n".replace("\n", "\r\n")
    assert facts(trace_of(spaced, tmp_path)).losses == facts(trace_of(TEXTS[form], tmp_path)).losses


def test_machines_take_the_seats_of_those_that_were_lost(tmp_path: Path) -> None:
    trace = trace_of(BAMBOO, tmp_path)
    found = facts(trace)
    assert (found.workers, found.losses, found.bulks, trace.end_s) == (2, 2, (2,), 120.0)
    assert found.outages_h == pytest.approx((1 / 60,))
    assert found.availability == pytest.approx(0.5)
    back = trace_of(BAMBOO + "180000,add,node1\n240000,remove,node3\n", tmp_path)
    assert facts(back).outages_h == pytest.approx((1 / 60, 2 / 60))


def test_a_machine_that_returns_under_its_name_has_its_seat(tmp_path: Path) -> None:
    text = "0,add,a\n0,add,b\n1000,remove,b\n2000,remove,a\n3000,add,a\n9000,add,b\n9500,add,c\n"
    assert facts(trace_of(text, tmp_path)).outages_h == pytest.approx((1 / 3600, 8 / 3600))


def test_parcae_lines_last_as_long_as_they_say(tmp_path: Path) -> None:
    trace = trace_of(PARCAE, tmp_path)
    assert (trace.end_s, facts(trace).losses) == (180.0, 1)
    assert facts(trace).availability == pytest.approx(300 / 360)


def test_counts_are_steps_and_the_last_of_an_instant_counts(tmp_path: Path) -> None:
    trace = trace_of(STEPS, tmp_path)
    found = facts(trace)
    assert (found.losses, found.bulks, found.hours * 3600) == (2, (2,), pytest.approx(400))
    assert found.up_h * 3600 == pytest.approx(200 + 150)
    assert not trace.named
    assert not any(life.began for life in trace.lives if life.start_s == 0)
    assert trace_of(STEPS, tmp_path, "h").end_s == 400 * 3600
    assert trace_of("time_h,count\n0,1\n2,0\n", tmp_path).end_s == 7200


def test_points_name_their_time(tmp_path: Path) -> None:
    turned = POINTS.replace('"Time": 90.0, "GPUs": 2', '"GPUs": 2, "Time": 90.0')
    assert facts(trace_of(turned, tmp_path)) == facts(trace_of(POINTS, tmp_path))


def test_a_dated_reading_may_name_its_zone(tmp_path: Path) -> None:
    west = re.sub(r"(:\d\d),", r"\1-07:00,", DATED, count=1)
    assert "backwards" in problem(west, tmp_path)
    assert trace_of(west.replace("10, 1", "11, 1").replace("11, 13:00", "10, 13:00"), tmp_path)


def test_readings_that_are_written_three_times_count_once(tmp_path: Path) -> None:
    found = facts(trace_of(TRIPLED, tmp_path))
    assert (found.bulks, found.hours) == ((3,), 1.0)
    assert found.outages_h == pytest.approx((59 / 60,) * 3)


def test_ticks_last_a_gap_and_what_is_not_above_0_is_nobody(tmp_path: Path) -> None:
    trace = trace_of(SKYPILOT.replace("2, 2, 0", "2.0, 2, -1"), tmp_path)
    found = facts(trace)
    assert (trace.end_s, found.losses, found.bulks) == (3000.0, 2, (2,))
    assert found.up_h * 6 == pytest.approx(2 + 2 + 1 + 2)
    alone = trace_of('{"metadata": {"gap_seconds": 60}, "data": [true, false, true]}', tmp_path)
    assert facts(alone).losses == 1


def test_lives_that_owners_and_caps_ended_are_censored(tmp_path: Path) -> None:
    trace = trace_of(LIFETIMES, tmp_path)
    assert [life.cause for life in trace.lives] == ["preempted", "preempted", NO_LOSS]
    assert [life.is_whole for life in trace.lives] == [True, True, False]
    assert [life.start_s for life in trace.lives] == [0.0, 1800.0, 3600.0]
    assert not trace.has_outages
    capped = trace_of(LIFETIMES.replace("180000", "88000"), tmp_path)  # a day and a bit: the cap
    assert [life.cause for life in capped.lives] == ["preempted", CAP, NO_LOSS]


def test_our_own_intervals_in_any_order(tmp_path: Path) -> None:
    trace = trace_of(INTERVALS, tmp_path)
    assert [(s.worker, s.gone_s, s.cause) for s in trace.spells()] == [
        (0, 100.0, "shock"),
        (1, 100.0, "law"),
        (1, 300.0, "law"),
    ]
    assert math.isnan(trace.spells()[0].back_s)
    assert (trace.workers, trace.end_s, facts(trace).bulk_share) == (4, 1000.0, 2 / 3)
    bare = trace_of(INTERVALS.partition("\n")[2], tmp_path)
    assert (bare.workers, bare.end_s) == (2, 400.0)
    for told in (
        INTERVALS.replace("4, end", "4 , end"),
        "\ufeff" + INTERVALS,
        "# ours\n" + INTERVALS,
    ):
        assert trace_of(told, tmp_path).workers == 4


WRONG = {
    "": "a.trace:1: the file is empty",
    "# only words\n\n": "a.trace:1: the file is empty",
    "a,b,c\n": "a.trace:1: no format that is known",
    "time,count\n": "a.trace:1: no readings in it",
    "0,add,a\n5,add,a\n": "a.trace:2: is added, and is there already (got 'a')",
    "0,add,a\n5,remove,b\n": "a.trace:2: is removed, and is not there (got 'b')",
    "5,add,a\n4,remove,a\n": "a.trace:2: the times run backwards (got '4,remove,a')",
    "0,add,a\n-4,remove,a\n": "a.trace:2: a time must be from 0 to a hundred years (got '-4')",
    "0,add,a\n5,sell,a\n": "a.trace:2: must be add or remove (got 'sell')",
    "0,add,a\n5,remove\n": "a.trace:2: must be ms,add|remove,node (got '5,remove')",
    "0,add,a\n": "a.trace:1: the trace ends before any machine has been there for a while",
    "0,5\n10,4\n9,5\n": "a.trace:3: the times run backwards (got '9,5')",
    "0,5\n-1,4\n": "a.trace:2: a time must be from 0",
    "0,5\n1,-4\n": "a.trace:2: a count must be a whole number from 0 to 100000 (got '-4')",
    "0,5\n1,4.5\n": "a.trace:2: a count must be a whole number",
    "0,5\n1,nan\n": "a.trace:2: a count must be a number (got 'nan')",
    "0,5\n1e999,4\n": "a.trace:2: a time must be a number (got '1e999')",
    "0,5\n1e30,4\n": "a.trace:2: a time must be from 0 to a hundred years (got '1e30')",
    "2021-12-10, 13:00:00, 8\n2021-13-10, 13:30:00, 5\n": "a.trace:2: must begin with YYYY-MM-DD",
    "2021-12-10, 13:00:00, 8\n2021-12-10, 12:30:00, 5\n": "a.trace:2: the times run backwards",
    '{"metadata": {}, "data": [1]}': 'a.trace:1: must hold "metadata"',
    '{"metadata": {"gap_seconds": 0}, "data": [1]}': "a.trace:1: gap_seconds must be above 0",
    '{"metadata": {"gap_seconds": 60},\n "data": [1,,2]}': "a.trace:2: not JSON",
    '{"metadata": {"gap_seconds": 60}, "data": [1, NaN]}': "a.trace:1: data[1] must be a number",
    '{"metadata": {"gap_seconds": 60}, "data": []}': "a.trace:1: no readings in it",
    "[\n]": "a.trace:1: no readings in it",
    '[{"Time": 0, "GPUs": 4, "TPUs": 5}]': 'a.trace:1: point 0 must hold a "Time" and a count',
    '[{"x": 0, "GPUs": 4}]': 'a.trace:1: point 0 must hold a "Time" and a count',
    '{"metadata": {"gap_seconds": 60}, "data": [0, 0]}': "a.trace:1: the trace ends before any",
    '[0, "add", {"nodes": ["a"]}]\n[1, "add", {"nodes": "b"}]': "a.trace:2: nodes must be a list",
    '[0, "add", {"nodes": ["a"]}]\n[1, "add"': "a.trace:2: must be a JSON list",
    "vm,life_s,end\na,5,eaten\n": "a.trace:2: end must be preempted",
    "vm,life_s,end\na,0,stop\n": "a.trace:2: no machine with a life above 0 s",
    "vm,life_s,end\na,5\n": "a.trace:2: must have 3 columns as the header",
    "life_s,end,life_s\n5,stop,6\n": "a.trace:1: two columns of one name (got 'life_s')",
    INTERVALS.replace("cause", "cause,zone"): "a.trace:2: two columns of one name (got 'zone')",
    INTERVALS.replace("4,", "four,"): "a.trace:1: must be `# workers: N, end_s: SECONDS`",
    INTERVALS.replace("150.5", "90"): "a.trace:3: back_s must be later than gone_s (got 90.0)",
    INTERVALS.replace("300", "120"): "a.trace:5: worker 1 is still away then (got 120.0)",
    INTERVALS.replace("1,east,300", "1,west,300"): "a.trace:5: worker 1 was in zone 'east'",
    INTERVALS.replace("workers: 4", "workers: 1"): "a.trace:2: 1 workers, and the rows name 2",
    "worker,zone,gone_s,back_s,cause\n": "a.trace:1: no outage in it",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_with_its_line(text: str, tmp_path: Path) -> None:
    assert problem(text, tmp_path).startswith(WRONG[text])


def test_files_that_are_no_text(tmp_path: Path) -> None:
    assert problem(b"0,5\n\xff\xfe\n", tmp_path) == "a.trace:2: not UTF-8 text"
    assert problem(b"0,5\n\0\n", tmp_path) == "a.trace:2: not a text file"
    assert problem(b"PAR1 and no more", tmp_path).startswith("a.trace: not a Parquet file")
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="a pipe or a device may never end"):
        read_trace(tmp_path / "pipe")


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line each that asks for more than there can be."""
    monkeypatch.setattr(counts, "MOST_CHANGES", 1000)
    assert "more than 1000" in problem(
        "".join(f"{2 * i},500\n{2 * i + 1},0\n" for i in range(500)), tmp_path
    )
    assert "not JSON" in problem('{"a":' * 100_000, tmp_path)
    assert "not JSON" in problem(f'{{"data": [{"9" * 10_000}]}}', tmp_path)


CHARACTERS = st.sampled_from([*'0123456789,-.:\n"[]{} eEaNx#/\r', "nan", "1e308", "add"])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good file with bytes flipped, cut or put in, lines left out, lines and columns swapped."""
    text = draw(st.sampled_from(sorted([*TEXTS.values(), "time,count\n0,2\n9,1\n"])))
    lines = text.splitlines()
    lines = lines[: draw(st.integers(1, len(lines)))]
    if draw(st.booleans()):
        lines = draw(st.permutations(lines))
    if draw(st.booleans()):
        k = draw(st.integers(0, len(lines) - 1))
        lines[k] = ",".join(draw(st.permutations(lines[k].split(","))))
    data = bytearray("\n".join(lines).encode())
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        put = draw(st.one_of(st.binary(max_size=3), CHARACTERS.map(str.encode)))
        data[at : at + draw(st.integers(0, 6))] = put
    return bytes(data)


@settings(max_examples=250, deadline=None)
@given(data=st.one_of(damaged(), st.binary(max_size=200)))
def test_a_damaged_file_is_an_error_or_a_trace_that_holds(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told = ""
    try:
        trace = trace_of(data, tmp_path_factory.getbasetemp())
    except TraceError as error:
        told = str(error)
    if told:
        assert re.search(r"a\.trace(:\d+)?: [^\n]+$", told)
        return
    found = facts(trace)
    assert trace.workers >= 1
    assert 0 < trace.end_s < math.inf
    assert 0 <= found.up_h <= trace.workers * trace.end_s / 3600 * (1 + 1e-9) or not (
        trace.has_outages
    )
    for lives in trace.by_worker():
        assert all(0 <= life.start_s <= life.end_s <= trace.end_s for life in lives)
        assert all(a.end_s <= b.start_s for a, b in pairwise(lives))


PUBLIC = {
    "bamboo/traces/p3-trace.csv": (0.77, 0.61, 6),
    "bamboo/traces/g4dn-trace.csv": (0.58, 0.55, 5),
    "bamboo/traces/gcloud/v100x1-east1c.txt": (0.98, 0.28, 40),
    "bamboo/traces/gcloud/a100x1-east1b.txt": (0.91, 0.10, 36),
}


@pytest.mark.skipif(not DATA.is_dir(), reason="public traces are not here")
@pytest.mark.parametrize("name", PUBLIC)
def test_public_traces_count_as_they_were_counted(name: str) -> None:
    """Share in bulk, losses per worker-hour, largest bulk: counted by hand from the files."""
    share, rate, largest = PUBLIC[name]
    found = facts(read_trace(DATA / name))
    assert found.bulk_share == pytest.approx(share, abs=0.005)
    assert found.losses_per_worker_hour == pytest.approx(rate, abs=0.006)
    assert found.largest_bulk == largest
