"""Points that are compared with the same no-failure runs, and what stands beside those.

An interval is over seeds, so runs are averaged only within a family: a parameter that changes what
is trained without failures, such as `method.inner_steps`, makes one of each of its values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from analysis.folders import Entry
from analysis.stats import Interval, interval
from analysis.sweep import DEPTH, Cell, Point, Sweep, values_of


@dataclass(frozen=True)
class Family:
    """Points with the same no-failure runs."""

    points: tuple[Point, ...]
    healthy: tuple[Entry, ...]
    """Finished ones, a seed each."""
    arms: tuple[str, ...]
    """`all` where a study has none."""
    of: str = ""
    """Values of parameters that tell it from others of the same arms, in words."""

    def holds(self, point: Point) -> bool:
        """Whether a point of the study belongs to it."""
        return any(point is own for own in self.points)

    def named(self, arms: str) -> str:
        """Its arms, as they are listed, with the values that tell it from others."""
        return f"{arms}, {self.of}" if self.of else arms

    def control(self, sweep: Sweep, name: str) -> tuple[Cell, ...]:
        """Finished runs of a control that are compared with its no-failure runs."""
        paths = {entry.path for entry in self.healthy}
        return tuple(c for c in sweep.control(name) if c.healthy and c.healthy.path in paths)

    def depth(self, sweep: Sweep) -> Interval | None:
        """How much worse a model without inner stages is: what those are worth."""
        return interval(values_of(self.control(sweep, DEPTH)))


def families(sweep: Sweep) -> tuple[Family, ...]:
    """In the order of the points; those of which no no-failure run has finished are in none."""
    runs = [{c.healthy.path: c.healthy for c in p.cells if c.healthy} for p in sweep.points]
    sets = [frozenset(own) for own in runs if own]
    whole = [one for one in dict.fromkeys(sets) if not any(one < other for other in sets)]
    found = []
    for paths in whole:  # points with fewer seeds have some of its runs
        of = [p for p, own in zip(sweep.points, runs, strict=True) if own and paths >= own.keys()]
        healthy = {path: entry for own in runs for path, entry in own.items() if path in paths}
        arms = tuple(dict.fromkeys(p.arm or "all" for p in of))
        found.append(Family(tuple(of), tuple(healthy[path] for path in _by_seed(healthy)), arms))
    several = [f for f in found if sum(other.arms == f.arms for other in found) > 1]
    return tuple(replace(f, of=_values(sweep, f)) if f in several else f for f in found)


def _by_seed(healthy: dict[Path, Entry]) -> list[Path]:
    return sorted(healthy, key=lambda path: int(healthy[path].summary["seed"]))


def _values(sweep: Sweep, family: Family) -> str:
    """Values of parameters that all its points share and not all points of the study."""
    own = {
        key: family.points[0].parameters[key]
        for key, values in sweep.parameters.items()
        if len(values) > 1 and len({repr(point.parameters[key]) for point in family.points}) == 1
    }
    return sweep.name(None, own) if own else ""


def depths(sweep: Sweep) -> list[tuple[Family, Interval]]:
    """The depth value of every family that has it."""
    told = [(family, family.depth(sweep)) for family in families(sweep)]
    return [(family, depth) for family, depth in told if depth is not None]
