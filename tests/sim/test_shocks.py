"""Shocks, caps and the queue for refill: by hand, and by their streams."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest

from sim.config import HOUR_S, Pool
from sim.fate import Refill, expected_availability, mean_up_s
from sim.provider import provider
from sim.records import Event
from tests.sim.test_provider import EXPONENTIAL, events, pool

SHOCKS = {"every_h": 0.05, "share": 0.6}


def of(found: list[Event], kind: str, cause: str | None = None) -> list[Event]:
    return [e for e in found if e.kind == kind and cause in (None, e.cause)]


def test_a_life_is_cut_at_the_cap() -> None:
    found = events({"a": pool(4, EXPONENTIAL, 0.001, life_cap_h=0.008)}, count=2000)
    up_s = {worker: 0.0 for worker in range(4)}
    causes = Counter(e.cause for e in of(found, "gone"))
    for e in found:
        if e.kind == "back":
            up_s[e.worker] = e.t_s
        elif e.cause == "cap":
            assert e.t_s - up_s[e.worker] == pytest.approx(0.008 * HOUR_S)
        else:
            assert e.t_s - up_s[e.worker] < 0.008 * HOUR_S
    expected = math.exp(-0.8)  # an exponential life that outlasts 0.8 of its mean
    sigma = math.sqrt(expected * (1 - expected) / causes.total())
    assert abs(causes["cap"] / causes.total() - expected) < 3.5 * sigma < 0.06


def test_a_cap_alone_takes_workers_and_says_so_before() -> None:
    capped = Pool.model_validate({"workers": 1, "life_cap_h": 1.0, "outage_h": 0.5, "notice_s": 60})
    assert [(e.t_s, e.kind, e.cause) for e in events({"a": capped}, count=4)] == [
        (3540.0, "notice", "cap"),
        (3600.0, "gone", "cap"),
        (5400.0, "back", "cap"),
        (8940.0, "notice", "cap"),
    ]


def test_a_shock_takes_its_share_at_one_instant() -> None:
    struck = Pool.model_validate({"workers": 200, "outage_h": 1e-4, "shocks": SHOCKS})
    found = of(events({"a": struck}, count=4000), "gone")
    assert {e.cause for e in found} == {"shock"}
    bulks = Counter(e.t_s for e in found)
    assert 10 < len(bulks) < 30
    for size in list(bulks.values())[:-1]:
        assert abs(size - 120) < 3.9 * math.sqrt(200 * 0.6 * 0.4)  # twenty shocks at 1e-4 each


def test_while_refill_is_blocked_nobody_comes_back() -> None:
    shocks = SHOCKS | {"block_refill_h": 0.02}
    found = events({"a": pool(50, EXPONENTIAL, 0.002, shocks=shocks)}, count=4000)
    shocks_s = sorted({e.t_s for e in of(found, "gone", "shock")})
    ends_s = [t_s + 0.02 * HOUR_S for t_s in shocks_s]
    assert len(shocks_s) >= 4
    for e in of(found, "back"):
        assert not any(a <= e.t_s < b for a, b in zip(shocks_s, ends_s, strict=True))
    at_an_end = [sum(e.t_s == end_s for e in of(found, "back")) for end_s in ends_s]
    assert max(at_an_end) > 20, "those who were due come when the block ends"
    elsewhere = [e for e in of(found, "back") if e.t_s not in ends_s]
    assert elsewhere, "and others when they are due"


def test_an_outage_that_outlasts_a_million_shocks_is_for_ever() -> None:
    """Whether refill is blocked then would take all of them: 1e13 here."""
    shocks = {"every_h": 0.1, "share": 1.0, "block_refill_h": 0.05}
    struck = Pool.model_validate({"workers": 1, "outage_h": 1e12, "shocks": shocks})
    assert [e.kind for e in provider({"a": struck}, 0)] == ["gone"]


def test_shocks_deal_nothing_else_again() -> None:
    """A worker draws the same times up and outages beside shocks; shares are nested."""

    def outages(found: list[Event]) -> list[float]:
        """Lengths of the outages of worker 0, in order."""
        mine = [e for e in found if e.worker == 0]
        gone_s, back_s = ([e.t_s for e in of(mine, kind)] for kind in ("gone", "back"))
        return [back - gone for gone, back in zip(gone_s, back_s, strict=False)]

    laws: dict[str, Any] = {"up": EXPONENTIAL, "outage": EXPONENTIAL}
    plain = events({"a": pool(3, **laws)}, count=200)
    shocked = events({"a": pool(3, **laws, shocks=SHOCKS)}, count=200)
    both = list(zip(outages(plain), outages(shocked), strict=False))
    assert len(both) > 20
    assert [a for a, _ in both] == pytest.approx([b for _, b in both])
    neighbour = {"b": pool(2, shocks={"every_h": 0.01, "share": 0.5}), "a": pool(3, **laws)}
    beside = [(e.t_s, e.kind) for e in events(neighbour, count=3000) if e.worker == 2]
    alone = [(e.t_s, e.kind) for e in plain if e.worker == 0]
    assert beside[: len(alone)] == alone[: len(beside)]

    def first_shock(share: float) -> set[int]:
        struck = pool(100, None, None, shocks={"every_h": 1.0, "share": share})
        found = events({"a": struck}, count=100)
        return {e.worker for e in found if e.t_s == found[0].t_s}

    assert first_shock(0.2) < first_shock(0.5) < first_shock(0.9)


def test_a_shock_that_nobody_survives_for_long_is_announced() -> None:
    struck = pool(5, None, 0.001, shocks=SHOCKS | {"share": 1.0}, notice_s=10.0)
    found = events({"a": struck}, count=300)
    for notice, gone in zip(of(found, "notice"), of(found, "gone"), strict=False):
        assert (notice.worker, notice.gone_s, notice.cause) == (gone.worker, gone.t_s, "shock")


# --- the queue for refill ---------------------------------------------------------------------


def test_outages_queue_for_refill() -> None:
    queue = Refill(2)
    assert [queue.end_s(t, 10.0) for t in (0.0, 1.0, 2.0, 3.0, 50.0)] == [10, 11, 20, 21, 60]
    free = Refill(None)
    assert [free.end_s(t, 10.0) for t in (0.0, 1.0, 2.0)] == [10, 11, 12]


@pytest.mark.parametrize("at_once", [1, 3])
def test_never_more_outages_end_side_by_side(at_once: int) -> None:
    found = events({"a": pool(12, 0.01, 0.004, refill_at_once=at_once)}, count=400)
    backs_s = [e.t_s for e in of(found, "back")]
    for first, later in itertools.pairwise(backs_s[::at_once]):
        assert later - first >= 0.004 * HOUR_S * (1 - 1e-9)


def test_enough_room_is_as_good_as_no_queue() -> None:
    plain, roomy = (
        events({"a": pool(6, EXPONENTIAL, EXPONENTIAL, **room)})
        for room in ({}, {"refill_at_once": 6})
    )
    assert plain == roomy


# --- what is expected -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "mean_h"),
    [
        ({"up_h": {"law": "weibull", "mean": 3.0, "shape": 0.6}}, 3.0),
        ({"life_cap_h": 2.0}, 2.0),
        (
            {"up_h": {"law": "exponential", "mean": 3.0}, "life_cap_h": 2.0},
            3 * (1 - math.exp(-2 / 3)),
        ),
        ({"shocks": {"every_h": 4.0, "share": 0.5}}, 8.0),
        ({"up_h": 3.0, "shocks": {"every_h": 4.0, "share": 0.5}}, 8 * (1 - math.exp(-3 / 8))),
        (
            {
                "up_h": {"law": "exponential", "mean": 8.0},
                "shocks": {"every_h": 4.0, "share": 0.5},
            },
            4.0,
        ),
    ],
)
def test_mean_time_up(keys: dict[str, object], mean_h: float) -> None:
    a_pool = Pool.model_validate({**keys, "outage_h": 1.0})
    assert mean_up_s(a_pool) == pytest.approx(mean_h * HOUR_S, rel=2e-3)
    assert expected_availability(a_pool) == pytest.approx(mean_h / (mean_h + 1), rel=2e-3)


def test_availability_where_there_is_no_formula() -> None:
    assert expected_availability(Pool()) == 1.0
    assert expected_availability(Pool(up_h=1.0)) == 0.0
    assert expected_availability(Pool(up_h=1.0, outage_h=1.0, refill_at_once=2)) is None


def test_validation_21_common_shocks() -> None:
    """A worker's rate is qz + l; P(a shock by t) = 1 - exp(-zt). Seed 0."""
    every_h, share, up_h, runs = 0.5, 0.3, 5.0, 300
    law = {"law": "exponential", "mean": up_h}
    a_pool = pool(20, law, None, shocks={"every_h": every_h, "share": share})
    lives_h, firsts_h = [], []
    for seed in range(runs):
        found = list(provider({"a": a_pool}, seed))
        lives_h.append(next(e.t_s for e in found if e.worker == 0) / HOUR_S)
        shock = next((e.t_s for e in found if e.cause == "shock"), math.inf)
        firsts_h.append(shock / HOUR_S)
    rate = share / every_h + 1 / up_h
    assert abs(sum(lives_h) / runs * rate - 1) < 3.5 / math.sqrt(runs)
    expected = -math.expm1(-0.4 / every_h)  # all but certain to take somebody of twenty
    sigma = math.sqrt(expected * (1 - expected) / runs)
    assert abs(sum(t < 0.4 for t in firsts_h) / runs - expected) < 3.5 * sigma < 0.11
