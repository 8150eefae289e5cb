"""Mechanisms broken on purpose turn the validation rows red that are named for them.

A row that no break can redden shows nothing. Rows are played at a share of their length, at which
the sound engine passes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scenarios import validation_links as links
from scenarios import validation_restart as restart
from scenarios import validation_rows as rows
from scenarios.bench import Bench, Check
from scenarios.validate import ROWS, checks
from scenarios.validation_markets import row_25
from scenarios.validation_stragglers import row_19
from sim import checkpoints, fate, interval_search, pipeline, roster, via
from sim.exchange import Exchange
from sim.heirs import Heirs
from sim.pace import WorkerPace
from sim.places import Worker
from sim.roster import Roster
from sim.strikes import PublishedRegime
from sim.terms import Terms

Patch = pytest.MonkeyPatch
Rows = tuple[Callable[[Bench], Iterator[Check]], ...]
SHARE = 0.2


def double_restore(patch: Patch) -> None:
    """A joining slot loads its weights twice."""
    once = Terms.restore

    def twice(self: Terms, *which: Any) -> tuple[int, float]:
        nbytes, restore_s = once(self, *which)
        return 2 * nbytes, 2 * restore_s

    patch.setattr(Terms, "restore", twice)


def dropped_detection(patch: Patch) -> None:
    """A loss is known at once."""
    gone = Roster.gone

    def known(self: Roster, worker: Worker, t_s: float, cause: str, is_known: bool = True) -> None:
        gone(self, worker, t_s, cause, is_known=True)

    patch.setattr(Roster, "gone", known)


def duration_off_by_one(patch: Patch) -> None:
    """The failing round is not the first of the D."""
    out = PublishedRegime.out

    def longer(self: PublishedRegime, slot: tuple[int, int]) -> None:
        out(self, slot)
        self._left[slot] += 1

    patch.setattr(PublishedRegime, "out", longer)


def half_a_share(patch: Patch) -> None:
    """A shock takes half of those it should."""
    init = fate.ShockTimes.__init__

    def halved(self: fate.ShockTimes, *args: Any) -> None:
        init(self, *args)
        self.share /= 2

    patch.setattr(fate.ShockTimes, "__init__", halved)


def ignored_cap(patch: Patch) -> None:
    """No life is cut."""
    init = fate.PoolFate.__init__

    def uncapped(self: fate.PoolFate, *args: Any) -> None:
        init(self, *args)
        self.cap_s = fate.NEVER_S

    patch.setattr(fate.PoolFate, "__init__", uncapped)


def spell_counted_twice(patch: Patch) -> None:
    """An outage that ended is recorded twice."""
    back = Roster.back

    def twice(self: Roster, worker: Worker, t_s: float) -> None:
        back(self, worker, t_s)
        self.ended.append(self.ended[-1])

    patch.setattr(Roster, "back", twice)


def unlimited_refill(patch: Patch) -> None:
    """All outages end side by side."""
    sound = fate.Refill
    patch.setattr(fate, "Refill", lambda at_once: sound(None))


def same_luck_every_round(patch: Patch) -> None:
    """Jitter is drawn once for all rounds."""
    slowness = WorkerPace.slowness
    patch.setattr(WorkerPace, "slowness", lambda self, index: slowness(self, 0))


def unbounded_flight(patch: Patch) -> None:
    """1F1B holds as many micro-batches as come."""
    patch.setattr(pipeline, "in_flight", lambda schedule, stages, m, extra: [m] * stages)


def dropped_links(patch: Patch) -> None:
    """Hops take no time."""
    sound = pipeline.Way
    patch.setattr(pipeline, "Way", lambda *given: sound())


def gradient_awaited(patch: Patch) -> None:
    """Activations are computed again only when the gradient is there."""
    sound = pipeline.inner_step_s

    def later(forward_s: Any, backward_s: Any, *args: Any, recompute_s: Any, **more: Any) -> float:
        both_s = [sum(pair) for pair in zip(backward_s, recompute_s or backward_s, strict=True)]
        return sound(forward_s, both_s if recompute_s else backward_s, *args, **more)

    patch.setattr(pipeline, "inner_step_s", later)


def everybody_twice(patch: Patch) -> None:
    """Replicas also fetch their own update from the store."""
    everything = property(lambda self: self.sends.sum(axis=0) * self.here)
    patch.setattr(via.Members, "fetched", everything)


def latency_once(patch: Patch) -> None:
    """In an all-gather only the first update pays the latency."""
    sound = via.ByAllGather.seconds

    def quick(self: via.ByAllGather, of: via.Members) -> via.Seconds:
        return sound(self, of) - (of.fetched - 1) * self.peers[0][0].latency_s

    patch.setattr(via.ByAllGather, "seconds", quick)


def ring_once_around(patch: Patch) -> None:
    """What is summed is not passed on."""
    once = via.ByRing.seconds
    patch.setattr(via.ByRing, "seconds", lambda *args: once(*args) / 2)


def free_uploads(patch: Patch) -> None:
    """An upload to the store takes no time."""
    patch.setattr(via.ByStore, "upload_s", lambda self, nbytes, kind: 0.0)


def free_checkpoints(patch: Patch) -> None:
    """A checkpoint takes no time."""
    at = Exchange.at
    patch.setattr(Exchange, "at", lambda self, start_s, checkpoint_s=None: at(self, start_s))


def first_order_only(patch: Patch) -> None:
    """The terms of higher order are left out."""
    patch.setattr(checkpoints, "daly_interval", checkpoints.young_interval)


def auto_is_daly(patch: Patch) -> None:
    """Nothing is searched."""
    patch.setattr(interval_search, "best_interval", lambda most, near, expected_s: near)


def never_given_back(patch: Patch) -> None:
    """Who was bought stays."""
    patch.setattr(Heirs, "relieve", lambda self, t_s: 0)


def bought_at_once(patch: Patch) -> None:
    """Nobody waits for spot workers."""
    falls_back = roster.falls_back

    def hasty(leaver: Worker, losses: int, t_s: float, known_s: float) -> tuple[str, float]:
        return falls_back(leaver, losses, t_s, known_s)[0], known_s

    patch.setattr(roster, "falls_back", hasty)


RESTARTS = (restart.row_12_wait, restart.row_10_spares)
PIPELINES = links.ROWS[:3]
EXCHANGES = links.ROWS[3:]
TABLE: dict[str, tuple[Callable[[Patch], None], Rows, set[str]]] = {
    "double restore": (double_restore, (rows.row_01, rows.row_23), {"1b", "23"}),
    "detection dropped": (
        dropped_detection,
        (restart.row_12_wait, restart.row_10_spares),
        {"10", "12"},
    ),
    "double restore in a restart": (double_restore, (restart.row_10_spares,), {"10"}),
    "checkpoint free": (free_checkpoints, (restart.row_10_spares,), {"10"}),
    "Daly cut short": (first_order_only, (restart.row_09,), {"9"}),
    "auto is Daly": (auto_is_daly, (restart.row_09_auto,), {"9"}),
    "D off by one": (duration_off_by_one, (rows.row_05,), {"5"}),
    "half a shock's share": (half_a_share, (rows.row_21,), {"21"}),
    "life cap ignored": (ignored_cap, (rows.row_01,), {"1c"}),
    "spell counted twice": (spell_counted_twice, (rows.row_02_to_04, rows.row_23), {"4", "23"}),
    "flight unbounded": (unbounded_flight, PIPELINES, {"16b"}),
    "links dropped": (dropped_links, PIPELINES, {"16", "16b"}),
    "gradient awaited": (gradient_awaited, PIPELINES, {"14"}),
    "own update fetched": (everybody_twice, EXCHANGES, {"24"}),
    "latency once": (latency_once, EXCHANGES, {"18"}),
    "once around the ring": (ring_once_around, EXCHANGES, {"17"}),
    "uploads free": (free_uploads, EXCHANGES, {"24"}),
    "jitter drawn once": (same_luck_every_round, (row_19,), {"19"}),
    "kept to the end": (never_given_back, (row_25,), {"25"}),
    "no wait": (bought_at_once, (row_25,), {"25"}),
    "refill unlimited": (unlimited_refill, (rows.row_02_to_04,), {"3"}),
}


def red(of: Rows) -> set[str]:
    return {check.row for check in checks(Bench(SHARE), of) if not check.holds}


@pytest.mark.parametrize("name", TABLE)
def test_a_broken_mechanism_turns_its_rows_red(name: str, monkeypatch: Patch) -> None:
    breaks, of, expected = TABLE[name]
    breaks(monkeypatch)
    assert red(of) == expected


def test_the_sound_engine_passes_every_row_at_this_length() -> None:
    assert red(ROWS) == set()
