"""Where two options cost the same, who is worse in everything, what drives a bill.

`templates/whatif_model.js` does the same in the page; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from analysis.bill import MILLION, Setting, dollars, outcome, runs_at
from analysis.interpolation import ON_KNOT
from analysis.stats import Interval, interval
from analysis.whatif_grid import LINKS, Grid, Option

SWING = 0.25
"""Prices are moved by this share, up and down."""
NOT_FREE = 0.01
"""Dollars a gigabyte to which a link without a price is moved."""
BISECTIONS = 60


@dataclass(frozen=True)
class Even:
    """Where two options cost the same, seed by seed."""

    by_seed: tuple[float | None, ...]
    """None: nowhere in the grid."""
    interval: Interval | None
    """Over seeds, where all of them have one."""


def even(by_seed: list[float | None]) -> Even:
    """With an interval if every seed has a value."""
    known = [value for value in by_seed if value is not None]
    return Even(tuple(by_seed), interval(known) if len(known) == len(by_seed) else None)


# --- break-even -------------------------------------------------------------------------------


def even_spot_factor(grid: Grid, setting: Setting, a: Option, b: Option) -> Even | None:
    """By what all spot prices would have to be multiplied for a and b to cost the same a token.

    None where something is unknown, or both use as much spot.
    """
    first, second = runs_at(grid, a, setting.at), runs_at(grid, b, setting.at)
    if first is None or second is None:
        return None
    spot = [name for name, pool in grid.pools.items() if pool.market == "spot"]
    found: list[float | None] = []
    for one, other in zip(first, second, strict=True):
        parts = []
        for run in (one, other):
            bill = dollars(grid, run, setting)
            on_spot = math.fsum(bill[name] for name in spot)
            rest = math.fsum(usd for what, usd in bill.items() if what not in spot)
            parts.append((on_spot / run["tokens"], rest / run["tokens"]))
        (spot_a, rest_a), (spot_b, rest_b) = parts
        apart = spot_a - spot_b
        if abs(apart) <= ON_KNOT * (spot_a + spot_b):
            return None
        factor = (rest_b - rest_a) / apart
        found.append(factor if factor >= 0 else None)
    return even(found)


def spot_price(grid: Grid, setting: Setting) -> float | None:
    """Mean price of the spot pools, dollars a worker-hour; None without spot."""
    return _mean_price(grid, setting, lambda market: market == "spot")


def fixed_price(grid: Grid, setting: Setting) -> float | None:
    """Mean price of the other pools; None if all are spot."""
    return _mean_price(grid, setting, lambda market: market != "spot")


def _mean_price(grid: Grid, setting: Setting, of: Callable[[str], bool]) -> float | None:
    found = [setting.usd_per_h[name] for name, pool in grid.pools.items() if of(pool.market)]
    return math.fsum(found) / len(found) if found else None


def even_along(grid: Grid, setting: Setting, axis: int, a: Option, b: Option) -> Even:
    """The first value of an axis at which a and b cost the same a token; the rest stays."""
    knots = grid.axes[axis].knots

    def apart(seed: int, value: float) -> float | None:
        at = (*setting.at[:axis], value, *setting.at[axis + 1 :])
        there = replace(setting, at=at)
        costs = [_cost(grid, option, there, seed) for option in (a, b)]
        if costs[0] is None or costs[1] is None:
            return None
        return costs[0] - costs[1]

    return even([_root(knots, partial(apart, seed)) for seed in range(len(grid.seeds))])


def _cost(grid: Grid, option: Option, setting: Setting, seed: int) -> float | None:
    runs = runs_at(grid, option, setting.at)
    if runs is None:
        return None
    run = runs[seed]
    return math.fsum(dollars(grid, run, setting).values()) / run["tokens"] * MILLION


def _root(knots: tuple[float, ...], apart: Callable[[float], float | None]) -> float | None:
    """Where a function first changes its sign between two knots, by bisection."""
    for low, high in pairwise(knots):
        first, last = apart(low), apart(high)
        if first is None or last is None or (first > 0) == (last > 0):
            continue
        left, right = low, high
        for _ in range(BISECTIONS):
            middle = (left + right) / 2
            here = apart(middle)
            assert here is not None, "both ends are known"
            left, right = (middle, right) if (here > 0) == (first > 0) else (left, middle)
        return (left + right) / 2
    return None


# --- who is worse in everything ---------------------------------------------------------------


@dataclass(frozen=True)
class Rated:
    """An option by all that counts."""

    usd_per_mtok: float
    hours_per_gtok: float
    gap: float | None
    """None: unknown; it then is neither better nor worse in loss than any other."""


def front(rated: Mapping[str, Rated]) -> list[str]:
    """Options that no other beats in dollars, hours and loss at once."""
    return [
        name
        for name, own in rated.items()
        if not any(_beats(other, own) for key, other in rated.items() if key != name)
    ]


def _beats(one: Rated, other: Rated) -> bool:
    if one.gap is None or other.gap is None:
        return False
    pairs = [
        (one.usd_per_mtok, other.usd_per_mtok),
        (one.hours_per_gtok, other.hours_per_gtok),
        (one.gap, other.gap),
    ]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


# --- what drives the bill ---------------------------------------------------------------------


@dataclass(frozen=True)
class Driver:
    """A knob, moved down and up by itself, and what a million tokens cost then."""

    knob: str
    moved_to: tuple[float, float]
    usd_per_mtok: tuple[float | None, float | None]

    @property
    def swing(self) -> float:
        """Dollars between the two; 0 where one is unknown."""
        low, high = self.usd_per_mtok
        return 0.0 if low is None or high is None else abs(high - low)


def drivers(grid: Grid, setting: Setting, option: Option) -> list[Driver]:
    """The drivers of an option's bill, one at a time, the strongest first.

    Prices by a quarter, a free link to a cent; swept numbers to the next knots.
    """
    moved: list[tuple[str, tuple[float, float], tuple[Setting, Setting]]] = []
    for i, axis in enumerate(grid.axes):
        lower = [knot for knot in axis.knots if knot < setting.at[i] * (1 - ON_KNOT)]
        higher = [knot for knot in axis.knots if knot > setting.at[i] * (1 + ON_KNOT)]
        to = (max(lower, default=setting.at[i]), min(higher, default=setting.at[i]))
        ats = [(*setting.at[:i], value, *setting.at[i + 1 :]) for value in to]
        moved.append((axis.title, to, (replace(setting, at=ats[0]), replace(setting, at=ats[1]))))
    for market in dict.fromkeys(pool.market for pool in grid.pools.values()):
        settings = [_priced(grid, setting, market, 1 + sign * SWING) for sign in (-1, 1)]
        moved.append((f"price {market}", (1 - SWING, 1 + SWING), (settings[0], settings[1])))
    for link in LINKS:
        price = setting.usd_per_gb[link]
        to = (price * (1 - SWING), price * (1 + SWING) or NOT_FREE)
        each = [replace(setting, usd_per_gb={**setting.usd_per_gb, link: p}) for p in to]
        moved.append((f"egress {link}", to, (each[0], each[1])))
    price = setting.usd_per_gb_month
    to = (price * (1 - SWING), price * (1 + SWING))
    each = [replace(setting, usd_per_gb_month=p) for p in to]
    moved.append(("storage", to, (each[0], each[1])))
    found = []
    for knob, to, (low, high) in moved:
        ends = [outcome(grid, option, one) for one in (low, high)]
        costs = [None if end is None else end.usd_per_mtok for end in ends]
        found.append(Driver(knob, to, (costs[0], costs[1])))
    return sorted(found, key=lambda driver: -driver.swing)


def _priced(grid: Grid, setting: Setting, market: str, factor: float) -> Setting:
    prices = {name: usd * factor if grid.pools[name].market == market else usd
              for name, usd in setting.usd_per_h.items()}  # fmt: skip
    return replace(setting, usd_per_h=prices)
