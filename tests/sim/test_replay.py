"""Replay: a run's own outages give the same run; counts, offsets, wraps, more and fewer workers."""

from __future__ import annotations

import csv
import io
import math
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from sim.config import HOUR_S, Fallback, Pool, TraceOutages
from sim.job import JobConfig
from sim.records import Event, GlobalStep
from sim.traces.read import read_text
from sim.traces.replay import Replay
from sim.traces.trace import ABSENT, Facts, Trace, facts, of_spells
from sim.watched import WatchedJob
from tests.sim.scenarios import Case, cases, ran
from tests.sim.worlds import IDLE, job

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A job is slow to shrink."""


def outages(**keys: Any) -> TraceOutages:
    return TraceOutages(kind="trace", path="-", **keys)


def trace_of(text: str, folder: Path, unit_s: float = 1.0) -> Trace:
    file = folder / "trace"
    file.write_text(text)
    return read_text(file, unit_s)


def told(a_job: WatchedJob) -> str:
    """The run's outages as our own CSV."""
    out = io.StringIO()
    out.write(f"# workers: {len(a_job.roster.hired)}, end_s: {a_job.start_s!r}\n")
    writer = csv.writer(out)
    writer.writerow(["worker", "zone", "gone_s", "back_s", "cause"])
    for x in a_job.spells():
        back = "" if math.isnan(x.back_s) else repr(x.back_s)
        writer.writerow([x.worker, x.zone, repr(float(x.gone_s)), back, x.cause])
    return out.getvalue()


def replayed(a_job: WatchedJob, trace: Trace) -> WatchedJob:
    """The same job in the outages of a trace."""
    config = a_job.config
    return WatchedJob(
        JobConfig(
            **{key: getattr(config, key) for key in JobConfig.__dataclass_fields__}
            | {"outages": outages(wrap=False), "replay": Replay(trace, outages(wrap=False))}
        )
    )


def rounds(steps: list[GlobalStep]) -> list[Any]:
    return [
        (g.start_s, g.end_s, g.steps.tolist(), g.sends.tolist(), g.joins.tolist(), g.usd)
        for g in steps
    ]


@settings(max_examples=20, deadline=None, phases=QUICK)
@given(case=cases(("pools", "script")))
def test_a_run_replays_from_its_own_outages(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rounds and spells, to the bit. With notice, what is lost after the end may have been
    announced before it, which no row tells: then spells are equal as far as both runs go. Nor does
    one tell of workers on call."""
    if "backup" in case.pools and case.pools["backup"].loses:
        return
    first = case.job()
    steps = ran(first)
    if len(steps) < case.rounds or not first.spells():
        return
    again = replayed(first, trace_of(told(first), tmp_path_factory.getbasetemp()))
    steps_again = ran(again)
    if any(pool.notice_s for pool in case.pools.values()):
        both_s = min(first.start_s, again.start_s)
        assert lost(again, both_s) == lost(first, both_s)
    else:
        assert rounds(steps_again) == rounds(steps)
        assert told(again) == told(first)


def lost(a_job: WatchedJob, until_s: float) -> list[tuple[float, int, str]]:
    return [(x.gone_s, x.worker, x.cause) for x in a_job.spells() if x.gone_s < until_s]


@settings(max_examples=25, deadline=None, phases=QUICK)
@given(case=cases(("per",)))
def test_the_published_regime_replays_as_spells(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its outages are told in rounds; as seconds they are those of the run, to the bit."""
    first = case.job()
    if len(ran(first)) < case.rounds or not first.spells():
        return
    trace = trace_of(told(first), tmp_path_factory.getbasetemp())
    events = list(Replay(trace, outages(wrap=False)).events([0.0] * trace.workers, 0))
    seen = [(e.t_s, e.worker) for e in events if e.kind == "gone"]
    assert seen == sorted((x.gone_s, x.worker) for x in first.spells())
    backs = sorted(x.back_s for x in first.spells() if not math.isnan(x.back_s))
    assert [e.t_s for e in events if e.kind == "back"] == backs


def lived(trace: Trace, hours: float, workers: int, seed: int = 0, **keys: Any) -> Facts:
    """What a job of so many workers sees of a replay."""
    a_job = job(
        replicas=workers,
        stages=1,
        rounds=10**6,
        policy=["idle"],
        outages=outages(**keys),
        seed=seed,
        replay=Replay(trace, outages(**keys)),
    )
    for _ in takewhile(lambda g: g.end_s < hours * HOUR_S, a_job.global_steps()):
        pass
    return facts(of_spells(a_job.spells(), ["z"] * workers, hours * HOUR_S))


BAMBOO = """0,add,a
0,add,b
600000,remove,a
1200000,add,c
1800000,remove,b
1800000,remove,c
2400000,add,d
3000000,add,e
3600000,remove,d
"""
COUNTS = "0,4\n600,2\n900,3\n1200,0\n1500,4\n3600,4\n"


def test_by_machine_the_facts_are_those_of_the_trace(tmp_path: Path) -> None:
    trace = trace_of(BAMBOO, tmp_path)
    own = facts(trace)
    assert (own.workers, own.losses, own.bulks) == (2, 4, (1, 2, 1))
    seen = lived(trace, own.hours, 2)
    assert (seen.losses, seen.bulks) == (own.losses, own.bulks)
    assert seen.up_h == pytest.approx(own.up_h)
    assert seen.outages_h == pytest.approx(own.outages_h)


@pytest.mark.parametrize("workers", [4, 8])
def test_more_workers_share_the_fates_of_the_trace(tmp_path: Path, workers: int) -> None:
    trace = trace_of(BAMBOO, tmp_path)
    own, seen = facts(trace), lived(trace, facts(trace).hours, workers)
    assert seen.availability == pytest.approx(own.availability)
    assert seen.losses == own.losses * workers // own.workers
    assert seen.mean_outage_h == pytest.approx(own.mean_outage_h)


def test_by_count_the_share_of_the_workers_is_there(tmp_path: Path) -> None:
    trace = trace_of(COUNTS, tmp_path)
    assert not trace.named
    own = facts(trace)
    for workers in (4, 8, 16):
        seen = lived(trace, own.hours, workers)
        assert seen.availability == pytest.approx(own.availability)
        assert seen.losses == own.losses * workers // 4
    few = lived(trace, own.hours, 1)
    assert few.availability == pytest.approx(1 - 300 / 3600)  # half of one worker is one


def test_who_leaves_by_count_depends_on_the_seed_and_on_nothing_else(tmp_path: Path) -> None:
    replay = Replay(trace_of(COUNTS, tmp_path), outages(wrap=False))

    def who(seed: int, notice_s: float = 0.0) -> list[tuple[float, int]]:
        events = replay.events([notice_s] * 4, seed)
        return [(e.t_s, e.worker) for e in events if e.kind != "notice"]

    assert who(1) == who(1) == who(1, notice_s=120.0)
    assert len({tuple(who(seed)) for seed in range(8)}) > 1
    assert {tuple(t for t, _ in who(seed)) for seed in range(8)} == {tuple(t for t, _ in who(1))}


def first(events: Any, count: int) -> list[tuple[float, int, str, str]]:
    return [(e.t_s, e.worker, e.kind, e.cause) for e, _ in zip(events, range(count), strict=False)]


def test_a_trace_goes_round(tmp_path: Path) -> None:
    """At its end everybody is as at its beginning; an outage over the seam stays one."""
    text = "# workers: 2, end_s: 100\nworker,zone,gone_s,back_s,cause\n0,z,10,30,x\n1,z,90,,y\n"
    trace = trace_of(text, tmp_path)
    assert first(Replay(trace, outages()).events([0.0, 0.0], 0), 6) == [
        (10.0, 0, "gone", "x"),
        (30.0, 0, "back", "x"),
        (90.0, 1, "gone", "y"),
        (100.0, 1, "back", "y"),
        (110.0, 0, "gone", "x"),
        (130.0, 0, "back", "x"),
    ]
    calm = list(Replay(trace, outages(wrap=False)).events([0.0, 0.0], 0))
    assert [e.t_s for e in calm] == [10.0, 30.0, 90.0]


def test_an_offset_begins_in_the_middle(tmp_path: Path) -> None:
    """Who is away then is gone at 0 s, and comes back as it did."""
    text = "# workers: 2, end_s: 7200\nworker,zone,gone_s,back_s,cause\n0,z,1800,5400,x\n"
    trace = trace_of(text, tmp_path)
    assert first(Replay(trace, outages(offset_h=1)).events([0.0, 0.0], 0), 4) == [
        (0.0, 0, "gone", ABSENT),
        (1800.0, 0, "back", ABSENT),
        (5400.0, 0, "gone", "x"),
        (9000.0, 0, "back", "x"),
    ]


def test_a_worker_that_returns_at_once_was_away_for_an_instant(tmp_path: Path) -> None:
    """It ends gone and begins up: a seam without length would lose it for ever."""
    text = "0,add,a\n0,add,b\n1000,remove,a\n1000,add,c\n2000,remove,b\n"
    events = list(Replay(trace_of(text, tmp_path), outages(wrap=False)).events([0.0, 0.0], 0))
    assert [(e.worker, e.kind) for e in events] == [(0, "gone"), (0, "back"), (1, "gone")]
    around = first(Replay(trace_of(text, tmp_path), outages()).events([0.0, 0.0], 0), 5)
    assert around[2][:3] == (2.0, 1, "gone")
    assert around[3][:3] == (math.nextafter(2.0, 3.0), 1, "back")


def test_losses_are_announced_where_there_is_notice(tmp_path: Path) -> None:
    text = "worker,zone,gone_s,back_s,cause\n0,z,10,30,x\n0,z,35,60,x\n1,z,31,40,x\n"
    events = list(Replay(trace_of(text, tmp_path), outages(wrap=False)).events([20.0, 0.0], 0))
    notices = [(e.t_s, e.worker, e.gone_s) for e in events if e.kind == "notice"]
    assert notices == [(0.0, 0, 10.0), (30.0, 0, 35.0)]
    assert [e.t_s for e in events] == sorted(e.t_s for e in events)


def test_a_trace_in_which_nothing_happens_ends(tmp_path: Path) -> None:
    trace = trace_of("0,3\n100,3\n", tmp_path)
    assert list(Replay(trace, outages()).events([0.0] * 3, 0)) == list[Event]()


def test_who_is_on_call_is_not_in_the_trace(tmp_path: Path) -> None:
    """Both spot workers go for good at 5 s; the trace has as many machines as are hired."""
    trace = trace_of("0,add,a\n0,add,b\n5000,remove,a\n5000,remove,b\n", tmp_path)
    pools = {
        "spot": Pool(workers=2, fallback=Fallback(pool="backup", after_wait_s=4.0)),
        "backup": Pool(workers=2),
    }
    plain = job(replicas=2, stages=1, pools=pools, policy=IDLE)
    a_job = replayed(plain, trace)
    assert sum(step.slot_s["vacant"] for step in a_job.global_steps()) == 8.0
