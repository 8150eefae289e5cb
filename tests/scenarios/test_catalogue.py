"""Instances and devices: what rows say, what wins, what is told of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from scenarios.catalogue.prices import devices, instances, stale
from scenarios.cli import app
from scenarios.load import ScenarioError
from scenarios.schema import Scenario
from scenarios.store import fingerprint

Read = Callable[..., Scenario]

ROW = "{device: A100, on_demand_usd_per_h: 1.5, spot_usd_per_h: 0.5, date: 2026-08, source: bill}"


def problems(read: Read, *told: str, **files: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        read(*told, **files)
    return str(caught.value)


# --- the package's rows -------------------------------------------------------------------------


def test_every_row_has_a_device_a_price_and_who_says_so() -> None:
    for row in instances().values():
        assert row.device in devices()
        assert row.on_demand_usd_per_h
        assert row.source
        assert 0 < (row.spot_usd_per_h or 0.1) < row.on_demand_usd_per_h
        if row.spot_seen_usd_per_h:
            low, high = row.spot_seen_usd_per_h
            assert row.spot_usd_per_h == pytest.approx((low + high) / 2)
    per_gpu = [row.on_demand_usd_per_h / row.gpus for row in instances().values()]
    assert min(per_gpu) > 0.5
    assert max(per_gpu) < 15


@pytest.mark.parametrize(
    ("pool", "usd_per_h", "notice_s"),
    [
        ("{instance: p3.2xlarge}", 3.06, 0),
        ("{instance: p3.2xlarge, market: on_demand}", 3.06, 0),
        ("{instance: p3.2xlarge, market: spot}", 0.92, 120),
        ("{instance: p4d.24xlarge, market: spot}", 6.1, 120),
        ("{instance: Standard_NC4as_T4_v3, market: spot}", 0.21, 30),
        ("{instance: p3.2xlarge, market: spot, usd_per_h: 1, notice_s: 5}", 1, 5),
        ("{instance: p3.2xlarge, market: spot, usd_per_h: 0, notice_s: 0}", 0, 0),
        ("{instance: p3.2xlarge, market: reserved, usd_per_h: 2}", 2, 0),
    ],
)
def test_a_row_fills_price_and_notice_and_given_keys_win(
    read: Read, pool: str, usd_per_h: float, notice_s: float
) -> None:
    found = read(pool).pools["p"]
    assert (found.usd_per_h, found.notice_s) == (usd_per_h, notice_s)


@pytest.mark.parametrize(
    ("work", "device", "gpus", "peak_tflops"),
    [
        ("{}", "V100", 1, 125),
        ("{gpus: 2}", "V100", 2, 250),
        ("{device: A100}", "A100", 1, 312),
        ("{device: H100, gpus: 8}", "H100", 8, 7912),
        ("{peak_tflops: 7}", "V100", 1, 7),
        ("{device: A100, peak_tflops: 7}", "A100", 1, 7),
    ],
)
def test_a_step_is_timed_on_the_device_of_the_pools(
    read: Read, work: str, device: str, gpus: int, peak_tflops: float
) -> None:
    found = read("{instance: p3.2xlarge}", f"work: {work}").work
    assert (found.device, found.gpus, found.peak_tflops) == (device, gpus, peak_tflops)


def test_a_worker_is_the_whole_instance(read: Read) -> None:
    found = read("{instance: p4d.24xlarge}")
    assert (found.work.gpus, found.work.peak_tflops) == (8, 8 * 312)
    assert found.pools["p"].usd_per_h == pytest.approx(21.96, abs=0.01)


def test_without_an_instance_nothing_is_filled(read: Read) -> None:
    found = read("{}")
    assert (found.work.device, found.work.gpus, found.work.peak_tflops) == (None, None, 125)
    assert (found.catalogue.instances, found.catalogue.devices) == ({}, {})


def test_a_resolved_scenario_holds_the_rows_it_used(read: Read) -> None:
    rows = read("{instance: p3.2xlarge}", "work: {device: L4}").catalogue
    assert rows.instances == {"p3.2xlarge": instances()["p3.2xlarge"]}
    assert rows.devices == {"L4": devices()["L4"]}


@pytest.mark.parametrize(
    ("pool", "lines", "problem"),
    [
        (
            "{instance: p3.2xlage}",
            "",
            "s.yaml:3:23: pools.p.instance: is not in the catalogue (got 'p3.2xlage'); "
            "did you mean 'p3.2xlarge'?",
        ),
        ("{instance: p3.2xlarge, market: cheap}", "", "must be 'spot', 'on_demand' or 'reserved'"),
        ("{market: spot}", "", "s.yaml:3:21: pools.p.market: is used only with instance"),
        (
            "{instance: g5.12xlarge, market: spot}",
            "",
            "pools.p.market: g5.12xlarge has no spot price in the catalogue: give usd_per_h",
        ),
        ("{}", "work: {device: A10}", "work.device: is not in the catalogue (got 'A10')"),
        ("{instance: m}", "catalogue: {instances: {m: {device: A100}}}", "m.date: missing key"),
        (
            "{instance: m}",
            "catalogue: {instances: {m: {device: A100, date: 2026-13, source: x}}}",
            "must be a date such as 2026-07-20 or 2026-07 (got '2026-13')",
        ),
        (
            "{instance: m}",
            "catalogue: {instances: {m: {device: A100, spot_usd_per_h: -1, date: 2026, "
            "source: x}}}",
            "s.yaml:4:59: catalogue.instances.m.spot_usd_per_h: must be at least 0 (got -1)",
        ),
        (
            "{instance: m}",
            "catalogue: {instances: {m: {device: Abacus, on_demand_usd_per_h: 1, date: 2026, "
            "source: x}}}",
            "work.device: is not in the catalogue (got 'Abacus')",
        ),
    ],
)
def test_what_no_row_tells_is_an_error_at_its_place(
    read: Read, pool: str, lines: str, problem: str
) -> None:
    assert problem in problems(read, pool, lines)


def test_pools_of_two_devices_must_say_which_one_is_timed(read: Read) -> None:
    pools = (
        "{instance: p3.2xlarge, workers: 16}, q: {instance: g4dn.xlarge, market: spot, workers: 16}"
    )
    told = problems(read, pools)
    assert "work: the pools' instances differ (1 x T4, 1 x V100): say work.device" in told
    assert read(pools, "work: {device: T4}").work.peak_tflops == 65


# --- age, and what a run depends on ---------------------------------------------------------------


def test_a_price_older_than_a_year_says_so(read: Read) -> None:
    found = read("{instance: p3.2xlarge, market: spot}")
    assert stale(found.pools, found.catalogue, date(2027, 7, 20)) == []
    assert stale(found.pools, found.catalogue, date(2027, 7, 21)) == [
        "the price of p3.2xlarge is of 2026-07-20, more than a year old"
    ]
    assert stale(found.pools, found.catalogue, date(2026, 7, 19)) == [
        "the price of p3.2xlarge is of 2026-07-20, a day to come"
    ]
    own = read("{instance: p3.2xlarge, market: spot, usd_per_h: 1}")
    assert stale(own.pools, own.catalogue, date(2030, 1, 1)) == [], "a price of one's own"


def test_a_row_that_no_pool_uses_changes_no_run(read: Read) -> None:
    bare = read("{instance: p3.2xlarge}")
    more = read("{instance: p3.2xlarge}", f"catalogue: {{instances: {{mine: {ROW}}}}}")
    assert fingerprint(bare) == fingerprint(more)


def test_every_output_of_a_run_tells_a_price_of_long_ago(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = ROW.replace("2026-08", "2020")
    (tmp_path / "s.yaml").write_text(
        "name: a\ntrain: null\nglobal_steps: 2\ncluster: {replicas: 2}\nwork: {model: small}\n"
        f"pools: {{p: {{instance: m}}}}\ncatalogue: {{instances: {{m: {row}}}}}\n"
    )
    told = "the price of m is of 2020, more than a year old"
    for arguments in (["check"], ["run", "--dry-run"], ["run", "--jobs", "1"]):
        command, *options = arguments
        files = [str(tmp_path / "s.yaml"), "--out", str(tmp_path / "runs")]
        app([command, *(files if command == "run" else files[:1]), *options], standalone_mode=False)
        assert told in "".join(capsys.readouterr()), arguments
    assert told in (tmp_path / "runs" / "a" / "report.html").read_text("utf-8")
