"""The provider: whom it takes when, the same for whatever is done about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from sim.config import Pool, Script
from sim.provider import provider
from sim.records import Event
from sim.roster import Roster
from sim.script import told_in_seconds
from tests.sim.worlds import job

EXPONENTIAL = {"law": "exponential", "mean": 0.01}


def pool(workers: int, up: object = EXPONENTIAL, outage: object = 0.001, **more: object) -> Pool:
    return Pool.model_validate({"workers": workers, "up_h": up, "outage_h": outage, **more})


def events(pools: Mapping[str, Pool], seed: int = 0, count: int = 300) -> list[Event]:
    return list(itertools.islice(provider(pools, seed), count))


def roster(**pool: float) -> Roster:
    """One replica of three stages."""
    return job(replicas=1, **pool).roster


def gones(found: list[Event], worker: int) -> list[tuple[float, str]]:
    return [(e.t_s, e.kind) for e in found if e.worker == worker and e.kind != "notice"]


def test_events_come_in_time_order_and_alternate() -> None:
    found = events({"a": pool(5, notice_s=10.0)})
    assert found == sorted(found, key=lambda e: (e.t_s, e.worker))
    for worker in range(5):
        kinds = [e.kind for e in found if e.worker == worker]
        cycle = ["notice", "gone", "back"]
        assert kinds == list(itertools.islice(itertools.cycle(cycle), len(kinds)))


def test_a_notice_says_when_and_comes_in_time() -> None:
    found = [e for e in events({"a": pool(1, notice_s=10.0)}) if e.kind != "back"]
    back_s = [0.0] + [e.t_s for e in events({"a": pool(1, notice_s=10.0)}) if e.kind == "back"]
    told = list(zip(found[::2], found[1::2], strict=False))
    assert len(told) > 90
    for k, (notice, gone) in enumerate(told):
        assert notice.gone_s == gone.t_s
        assert notice.t_s == max(gone.t_s - 10.0, back_s[k])


def test_fixed_laws_are_told_in_hours() -> None:
    found = events({"a": pool(2, 1.0, 0.5)}, count=6)
    assert [(e.t_s, e.worker, e.kind) for e in found] == [
        (3600.0, 0, "gone"),
        (3600.0, 1, "gone"),
        (5400.0, 0, "back"),
        (5400.0, 1, "back"),
        (9000.0, 0, "gone"),
        (9000.0, 1, "gone"),
    ]


def test_what_a_worker_draws_hangs_on_seed_pool_and_index_alone() -> None:
    alone = gones(events({"b": pool(1)}, count=60), 0)
    beside = events({"a": pool(3), "b": pool(2)}, count=1000)
    assert gones(beside, 3)[: len(alone)] == alone
    noticed = events({"b": pool(1, notice_s=20.0, detect_s=5.0, usd_per_h=3.0)}, count=90)
    assert gones(noticed, 0) == alone
    assert gones(events({"c": pool(1)}, count=60), 0) != alone
    assert gones(events({"b": pool(1)}, seed=1, count=60), 0) != alone
    assert gones(beside, 4)[:60] != alone


def test_another_law_of_outages_does_not_deal_again() -> None:
    """The k-th up spell is drawn from the same number, whatever the outages between."""

    def ups(outage: float) -> list[float]:
        found = events({"a": pool(1, EXPONENTIAL, outage)}, count=40)
        gone_s, back_s = ([e.t_s for e in found if e.kind == kind] for kind in ("gone", "back"))
        return [gone - back for gone, back in zip(gone_s, [0.0, *back_s], strict=False)]

    assert ups(0.001) == pytest.approx(ups(5.0))


def test_without_a_law_of_return_nobody_returns() -> None:
    found = events({"a": pool(4, EXPONENTIAL, None)})
    assert [e.kind for e in found] == ["gone"] * 4
    assert events({"a": Pool(workers=3)}) == []


def test_a_script_in_time_order_with_notice() -> None:
    script = Script.model_validate(
        {
            "kind": "script",
            "script": {
                "second": {"replica": 0, "stage": 1, "gone_s": 32.0, "back_s": 90.0},
                "first": {"replica": 0, "stage": 1, "gone_s": 12.5, "back_s": 30.0},
                "in_steps": {"replica": 0, "stage": 0, "at": {"global_step": 3}},
            },
        }
    )
    found = told_in_seconds(script, roster(notice_s=5.0))
    assert [(e.t_s, e.kind, e.cause) for e in found] == [
        (7.5, "notice", "first"),
        (12.5, "gone", "first"),
        (30.0, "back", "first"),
        (30.0, "notice", "second"),  # not while it is away
        (32.0, "gone", "second"),
        (90.0, "back", "second"),
    ]
    assert [e.kind for e in told_in_seconds(script, roster())] == ["gone", "back"] * 2
