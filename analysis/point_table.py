"""The points of a study as a table, for the terminal and the report. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Any

from analysis import numbers
from analysis.stats import METHOD, Interval, paired
from analysis.sweep import Point, Sweep, gap, short, value_of

NONE_TOLD = "no difference can be told"


@dataclass(frozen=True)
class Column:
    """A column: its title, how the number came about, and whether it needs a loss."""

    title: str
    kind: str
    needs_loss: bool
    show: Callable[[Point], str]


def _mean(read: Callable[[Mapping[str, Any]], float | None], show: Callable[[float], str]) -> Any:
    def shown(point: Point) -> str:
        mean = point.mean(read)
        return numbers.NOTHING if mean is None else show(mean)

    return shown


COLUMNS = (
    Column("gap", "measured", True, _mean(gap, numbers.mean_gap)),
    Column("±", "measured", True, lambda p: half_width(p.interval())),
    Column("val loss", "measured", True, _mean(itemgetter("val_loss"), numbers.loss)),
    Column("degraded", "simulated", False, _mean(itemgetter("degraded_share"), numbers.percent)),
    Column("full-depth share", "simulated", False,
           _mean(itemgetter("full_depth_token_share"), numbers.percent)),
    Column("ETTR", "simulated", False, _mean(itemgetter("ettr"), lambda value: f"{value:.3f}")),
    Column("simulated hours", "simulated", False, _mean(itemgetter("wall_s"), numbers.hours)),
    Column("dollars", "simulated", False, _mean(lambda s: s["usd"]["total"], numbers.usd)),
)  # fmt: skip


def half_width(told: Interval | None) -> str:
    """Half of an interval, with the decimals of the means beside it."""
    if told is None or told.half_width is None:
        return numbers.NOTHING
    return numbers.loss(told.half_width)


def has_losses(sweep: Sweep) -> bool:
    """Whether any point has a gap."""
    return any(point.values() for point in sweep.points)


def columns(sweep: Sweep) -> tuple[Column, ...]:
    """Those that apply."""
    return tuple(c for c in COLUMNS if has_losses(sweep) or not c.needs_loss)


def key_cells(sweep: Sweep, point: Point) -> tuple[str, ...]:
    """What names a point: its arm, if there are arms, and the values of its parameters."""
    arm = (point.arm or numbers.NOTHING,) if sweep.arms else ()
    return (*arm, *(value_of(key, point.parameters[key]) for key in sweep.parameters))


def key_heads(sweep: Sweep) -> tuple[str, ...]:
    """Titles of `key_cells`."""
    arm = ("arm",) if sweep.arms else ()
    return (*arm, *(short(key, sweep.parameters) for key in sweep.parameters))


def runs_of(point: Point) -> str:
    """How many seeds have finished; of how many, where some have not; and with how many gaps,
    where some have none: one of the two runs was cut before the evaluation of the other."""
    done, planned, gaps = len(point.done), len(point.cells), len(point.values())
    of = str(done) if done == planned else f"{done} of {planned}"
    return f"{of}, gap of {gaps}" if 0 < gaps < done else of


@dataclass(frozen=True)
class Difference:
    """Two arms at the same parameters: the first one's gap minus the second one's, by seed."""

    first: Point
    second: Point
    told: Interval
    noise: float
    """What repeats without failures of either arm differ by, at most."""

    @property
    def side(self) -> str:
        """As of an interval; what is no larger than repeats differ by counts as level."""
        return side(self.told, self.noise)

    @property
    def lower(self) -> str:
        """What the lower one did: gaps differ as losses do only beside the same no-failure runs."""
        one, two = (
            {cell.seed: cell.healthy and cell.healthy.path for cell in point.done}
            for point in (self.first, self.second)
        )
        shares = all(one[seed] and one[seed] == two[seed] for seed in one if seed in two)
        return "ended lower" if shares else "has the lower gap"

    @property
    def verdict(self) -> str:
        """Who lost less to failures, if anybody."""
        if self.side == "unknown":
            return "one seed, not evidence"
        if self.side == "level":
            return NONE_TOLD
        return f"{self.first.arm if self.side == 'below' else self.second.arm} {self.lower}"


def side(told: Interval, noise: float | None) -> str:
    """`above`, `below`, `level` or `unknown`.

    A difference is told only where its interval leaves zero out and it is larger than what
    repeats differ by: with three seeds an interval can be narrow by luck.
    """
    if told.side in ("above", "below") and abs(told.mean) <= (noise or 0.0):
        return "level"
    return told.side


def differences(sweep: Sweep) -> tuple[Difference, ...]:
    """Every pair of arms at every value of the parameters that both have finished."""
    found = []
    for one, two in combinations(sweep.points, 2):
        if one.parameters == two.parameters and one.arm != two.arm:
            told = paired(one.values(), two.values())
            noise = max(sweep.noise(one.arm) or 0.0, sweep.noise(two.arm) or 0.0)
            if told is not None:
                found.append(Difference(one, two, told, noise))
    pairs = list(dict.fromkeys((d.first.arm, d.second.arm) for d in found))
    return tuple(sorted(found, key=lambda d: pairs.index((d.first.arm, d.second.arm))))


def text_of(sweep: Sweep) -> tuple[list[list[str]], list[str]]:
    """Rows, titles first, and the notes below them."""
    chosen = columns(sweep)
    rows = [[*key_heads(sweep), "n", *(c.title for c in chosen)]]
    rows += [[*key_cells(sweep, p), runs_of(p), *(c.show(p) for c in chosen)] for p in sweep.points]
    notes = []
    if has_losses(sweep):
        notes.append(f"gap: to the own no-failure run of the same seed; {METHOD}")
        noise = sweep.noise()
        if noise is not None:
            notes.append(f"repeats without failures differ by up to {numbers.loss(noise)}")
    notes += [f"failed: {cell.label}: {cell.failed}" for cell in sweep.cells if cell.failed]
    return rows, notes
