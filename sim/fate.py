"""What befalls the workers of a pool: lives, caps, shocks, outages, the queue for refill."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right

import numpy as np

from sim.clock import later, stream
from sim.config import HOUR_S, Pool, Shocks
from sim.durations import law
from sim.laws import Exponential

NEVER_S = math.inf
QUANTILES = 10_000
"""At which a mean over a law that is cut is taken."""

MOST_PROLONGED = 10_000
"""Shocks after which a block of refill that they prolong counts as for ever."""
MOST_SHOCKS = 1_000_000
"""Mean distances of shocks after which an outage counts as for ever: all before are drawn."""


class ShockTimes:
    """When a pool is struck, and until when its refill is blocked; drawn as far as asked for.

    Args:
        shocks: as the scenario tells them.
        draws: the pool's own, two a shock: the time since the one before, the block.
    """

    def __init__(self, shocks: Shocks, draws: np.random.Generator) -> None:
        self.share = shocks.share
        self._gap = Exponential(shocks.every_h * HOUR_S)
        self._last_s = MOST_SHOCKS * shocks.every_h * HOUR_S
        block = shocks.block_refill_h
        self._block = None if block is None else law(block, HOUR_S)
        self._draws = draws
        self._instants: list[float] = []
        self._blocked_until_s: list[float] = []  # by this shock and all before it

    def instant(self, k: int) -> float:
        """Of the k-th shock."""
        while len(self._instants) <= k:
            last_s = self._instants[-1] if self._instants else 0.0
            u, v = self._draws.random(2).tolist()
            t_s = later(last_s, self._gap.quantile(u))
            end_s = t_s if self._block is None else t_s + self._block.quantile(v)
            before_s = self._blocked_until_s[-1] if self._blocked_until_s else 0.0
            self._instants.append(t_s)
            self._blocked_until_s.append(max(before_s, end_s))
        return self._instants[k]

    def unblocked(self, t_s: float) -> float:
        """The first instant from t on at which refill is not blocked; infinite: never.

        Shocks that come faster than blocks end prolong a block on and on, for about
        exp(block / every) shocks: after MOST_PROLONGED of them it counts as for ever.
        """
        if self._block is None:
            return t_s
        if t_s > self._last_s:
            return NEVER_S
        last = len(self._instants) + MOST_PROLONGED
        while len(self._instants) < last:
            while not self._instants or self._instants[-1] <= t_s:
                self.instant(len(self._instants))
            struck = bisect_right(self._instants, t_s)
            if not struck or self._blocked_until_s[struck - 1] <= t_s:
                return t_s
            t_s = self._blocked_until_s[struck - 1]
        return NEVER_S


class Refill:
    """At most so many outages of a pool end side by side, first come first served.

    An outage of which others are being ended queues; its law is the time from its turn on. Of
    those that were lost at one instant, the one that was up longest has its turn first.
    """

    def __init__(self, at_once: int | None) -> None:
        self._at_once = at_once
        self._busy_until_s: list[float] = []

    def end_s(self, gone_s: float, outage_s: float) -> float:
        """When an outage ends; call in the order of the losses."""
        if self._at_once is None:
            return later(gone_s, outage_s)
        begin_s = gone_s
        if len(self._busy_until_s) == self._at_once:
            begin_s = max(gone_s, heapq.heappop(self._busy_until_s))
        heapq.heappush(self._busy_until_s, end_s := later(begin_s, outage_s))
        return end_s


class PoolFate:
    """What the workers of a pool share."""

    def __init__(self, name: str, pool: Pool, seed: int) -> None:
        self.up = None if pool.up_h is None else law(pool.up_h, HOUR_S)
        self.outage = None if pool.outage_h is None else law(pool.outage_h, HOUR_S)
        self.cap_s = NEVER_S if pool.life_cap_h is None else pool.life_cap_h * HOUR_S
        self.refill = Refill(pool.refill_at_once)
        self.shocks: ShockTimes | None = None
        if pool.shocks is not None:
            self.shocks = ShockTimes(pool.shocks, stream(seed, "shocks", name))


class Fate:
    """When a worker is gone, why, and when it is back.

    Args:
        pool: what it shares with its pool.
        draws: its own, one for each time up and each outage.
        struck: its own, one for each shock of the pool, also of those that find it away.
    """

    def __init__(
        self, pool: PoolFate, draws: np.random.Generator, struck: np.random.Generator
    ) -> None:
        self._pool, self._draws, self._struck = pool, draws, struck
        self._shock = -1
        self._shock_s = -NEVER_S

    def gone(self, now_s: float) -> tuple[float, str]:
        """(instant, cause) of the loss of a worker that is up since now; infinite: never."""
        u = self._draws.random()
        gone_s, cause = NEVER_S, "law"
        if self._pool.up is not None:
            gone_s = later(now_s, self._pool.up.quantile(u))
        if (cap_s := later(now_s, self._pool.cap_s)) < gone_s:
            gone_s, cause = cap_s, "cap"
        if (struck_s := self._struck_s(now_s)) < gone_s:
            gone_s, cause = struck_s, "shock"
        return gone_s, cause

    def back(self, gone_s: float) -> float:
        """When a worker that is gone now is back; infinite: never."""
        u = self._draws.random()
        if self._pool.outage is None:
            return NEVER_S
        end_s = self._pool.refill.end_s(gone_s, self._pool.outage.quantile(u))
        return end_s if self._pool.shocks is None else self._pool.shocks.unblocked(end_s)

    def _struck_s(self, now_s: float) -> float:
        """The next shock that takes it."""
        shocks = self._pool.shocks
        if shocks is None:
            return NEVER_S
        while self._shock_s <= now_s:
            self._shock += 1
            if self._struck.random() < shocks.share:
                self._shock_s = shocks.instant(self._shock)
        return self._shock_s


def expected_availability(pool: Pool) -> float | None:
    """Mean time up / (that + mean outage) in the long run; None where it has no closed form.

    A time up is the least of the law, the cap and an exponential time to the next shock that takes
    the worker; the mean over the law is taken at its quantiles.
    """
    if not pool.loses:
        return 1.0
    if pool.outage_h is None:
        return 0.0
    is_blocked = pool.shocks is not None and pool.shocks.block_refill_h is not None
    if is_blocked or pool.refill_at_once is not None:
        return None
    up_s = mean_up_s(pool)
    return up_s / (up_s + law(pool.outage_h, HOUR_S).mean)


def mean_up_s(pool: Pool) -> float:
    """Mean seconds from back to gone."""
    up = None if pool.up_h is None else law(pool.up_h, HOUR_S)
    cap_s = NEVER_S if pool.life_cap_h is None else pool.life_cap_h * HOUR_S
    if up is not None and cap_s == NEVER_S and pool.shocks is None:
        return up.mean
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    lives_s = np.array([cap_s] if up is None else [min(cap_s, up.quantile(u)) for u in shares])
    if pool.shocks is not None:
        between_s = pool.shocks.every_h * HOUR_S / pool.shocks.share
        lives_s = between_s * -np.expm1(-lives_s / between_s)
    return float(lives_s.mean())
