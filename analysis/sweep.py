"""A study's cells, points and controls, from study.json and summaries. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis import numbers
from analysis.folders import Entry, Listing, broken, read_json
from analysis.stats import Interval, interval

NO_FAILURE, NOISE, DEPTH = "no_failure", "noise", "depth"
"""Controls with a meaning of their own: the run that is compared with; repeats of it that differ by
a jitter of the initial weights; a model without inner stages."""
PROBABILITY, LENGTH = "outages.probability", "outages.duration_global_steps"
NAMES = {PROBABILITY: "failure rate", LENGTH: "outage rounds"}
"""Swept parameters as they are called in figures and tables; others go by their key."""

Read = Callable[[Mapping[str, Any]], float | None]
"""A quantity of a summary."""


def gap(summary: Mapping[str, Any]) -> float | None:
    """Loss minus the no-failure run's."""
    found: float | None = summary["val_loss_gap"]
    return found


@dataclass(frozen=True)
class Cell:
    """One planned run."""

    label: str
    arm: str | None
    """None where there are no arms, or where all share it."""
    parameters: Mapping[str, Any]
    seed: int
    control: str | None
    entry: Entry | None
    """None: not finished."""
    healthy: Entry | None
    """Its no-failure run, if that has finished."""
    failed: str | None
    """Why it failed, in a line."""


@dataclass(frozen=True)
class Point:
    """An arm at one value of every parameter: a cell for each seed."""

    arm: str | None
    parameters: Mapping[str, Any]
    cells: tuple[Cell, ...]

    @property
    def done(self) -> tuple[Cell, ...]:
        """Cells whose run has finished."""
        return tuple(cell for cell in self.cells if cell.entry is not None)

    def values(self, read: Read = gap) -> dict[int, float]:
        """A quantity by seed, of the runs that have it."""
        found = ((c.seed, read(c.entry.summary)) for c in self.cells if c.entry is not None)
        return {seed: value for seed, value in found if value is not None}

    def interval(self, read: Read = gap) -> Interval | None:
        """A quantity's mean over seeds."""
        return interval(self.values(read).values())

    def mean(self, read: Read) -> float | None:
        """A quantity's mean over seeds, where its interval is of no interest."""
        found = self.interval(read)
        return None if found is None else found.mean


@dataclass(frozen=True)
class Series:
    """Points that differ in one parameter only, in its order: a line of a figure."""

    name: str
    arm: str | None
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Sweep:
    """What a study planned, and what of it has finished."""

    parameters: Mapping[str, tuple[Any, ...]]
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    points: tuple[Point, ...]
    """Arms x parameters in their order, without controls."""
    until: float | None = None
    """Half width of a gap's interval, nats, to which points got more seeds; None: they got none."""

    @property
    def seed_words(self) -> str:
        """How many seeds a point has: `3 seeds`, or `3 to 7 seeds`."""
        counts = {len(point.cells) for point in self.points} or {len(self.seeds)}
        least = f"{min(counts)} to " if len(counts) > 1 else ""
        return f"{least}{max(counts)} {'seed' if max(counts) == 1 else 'seeds'}"

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the controls beside the no-failure runs."""
        found = dict.fromkeys(cell.control for cell in self.cells)
        return tuple(name for name in found if name not in (None, NO_FAILURE))

    def control(self, name: str, arm: str | None = None) -> tuple[Cell, ...]:
        """Finished runs of a control, of all arms or of those that share an arm's no-failure run.

        Two names of one run are one repeat, not two.
        """
        of_arm = {c.healthy.path for c in self.cells if c.arm == arm and c.healthy is not None}
        found = {
            cell.entry.path: cell
            for cell in self.cells
            if cell.control == name and cell.entry is not None and cell.healthy is not None
            if arm is None or cell.healthy.path in of_arm
        }
        return tuple(found.values())

    def noise(self, arm: str | None = None) -> float | None:
        """The largest loss by which a repeat without failures differs; None without repeats."""
        moved = values_of(self.control(NOISE, arm))
        return max(map(abs, moved), default=None)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Parameters whose values are numbers, at least two."""
        return tuple(
            key
            for key, values in self.parameters.items()
            if len(values) > 1 and all(type(value) in (int, float) for value in values)
        )

    @property
    def along(self) -> str | None:
        """The parameter along which figures are drawn: the failure rate, else the first number."""
        return PROBABILITY if PROBABILITY in self.numeric else next(iter(self.numeric), None)

    def series(self) -> tuple[Series, ...]:
        """Lines along the axis: one for each arm and value of the other parameters."""
        along = self.along
        if along is None:
            return ()
        lines: dict[str, list[Point]] = {}
        for point in self.points:
            rest = {key: value for key, value in point.parameters.items() if key != along}
            lines.setdefault(self.name(point.arm, rest), []).append(point)
        return tuple(
            Series(name, line[0].arm, tuple(sorted(line, key=lambda p: p.parameters[along])))
            for name, line in lines.items()
        )

    def name(self, arm: str | None, parameters: Mapping[str, Any]) -> str:
        """A point in words: skip, probability 5 %."""
        parts = [] if arm is None else [arm]
        parts += [f"{short(key, self.parameters)} {value_of(key, value)}"
                  for key, value in parameters.items()]  # fmt: skip
        return ", ".join(parts) or "the run"


def values_of(cells: Iterable[Cell], read: Read = gap) -> list[float]:
    """A quantity of the finished runs among them that have it."""
    found = (read(cell.entry.summary) for cell in cells if cell.entry is not None)
    return [value for value in found if value is not None]


def short(key: str, keys: Iterable[str]) -> str:
    """A key in words: its last part, or all of it where another ends alike."""
    last = key.rpartition(".")[2]
    is_alone = sum(other.rpartition(".")[2] == last for other in keys) < 2
    return NAMES.get(key, last.replace("_", " ") if is_alone else key)


def value_of(key: str, value: Any) -> str:
    """A parameter's value as people read it: chances in percent."""
    is_share = key.endswith(("probability", "share")) and isinstance(value, int | float)
    return f"{100 * value:.4g} %" if is_share else numbers.plain(value)


def sweep_of(listing: Listing) -> Sweep | None:
    """The study in a folder; None of a single run, and of arms that were run with one seed only.

    Raises:
        AnalysisError: study.json is broken.
    """
    path = listing.folder / "study.json"
    told = read_json(path) if path.is_file() else {}
    points, failed = told.get("points"), told.get("failed", {})
    if points is None:
        return None
    parameters, arms, seeds = told.get("parameters"), told.get("arms"), told.get("seeds")
    if not (isinstance(points, dict) and isinstance(failed, dict) and isinstance(parameters, dict)):
        broken(path, "points, parameters and failed must be maps")
    if not (isinstance(arms, list) and isinstance(seeds, list)):
        broken(path, "arms and seeds must be lists")
    if not seeds or not all(type(seed) is int for seed in seeds):
        broken(path, "seeds must be whole numbers, one at least")
    until = told.get("until_half_width")
    if until is not None and type(until) not in (int, float):
        broken(path, "until_half_width must be a number or null")
    for key, values in parameters.items():
        if not isinstance(values, list):
            broken(path, f"parameters.{key} must be a list")
    for label, point in points.items():
        if problem := _problem(point, parameters):
            broken(path, f"points.{label}: {problem}")
    cells = tuple(_cells(listing, told))
    if not parameters and len(seeds) < 2 and all(c.control in (None, NO_FAILURE) for c in cells):
        return None
    swept = {key: tuple(values) for key, values in parameters.items()}
    points_ = _points(cells, arms, swept)
    return Sweep(swept, tuple(map(str, arms)), tuple(seeds), cells, points_, until)


def _problem(point: Any, parameters: Mapping[str, Any]) -> str:
    if not isinstance(point, dict):
        return "a map is expected"
    if not isinstance(point.get("arm", 0), str | None):
        return "arm must be a name or null"
    if not isinstance(point.get("parameters"), dict):
        return "parameters must be a map"
    if type(point.get("seed")) is not int:
        return "seed must be a whole number"
    if not isinstance(point.get("control", 0), str | None):
        return "control must be a name or null"
    if point["control"] is None and set(point["parameters"]) != set(parameters):
        return f"a value of each of {', '.join(parameters)} is expected"
    for key, value in point["parameters"].items():
        if value not in parameters.get(key, ()):
            return f"{key} {value!r} is not among the values of that parameter"
    return ""


def _cells(listing: Listing, told: Mapping[str, Any]) -> Iterable[Cell]:
    runs = {entry.path.name: entry for entry in listing.entries}
    for label, folder in told["cells"].items():
        point = told["points"].get(label)
        if point is None:
            continue
        why = told.get("failed", {}).get(label)
        yield Cell(
            label=label,
            arm=point["arm"],
            parameters=point["parameters"],
            seed=point["seed"],
            control=point["control"],
            entry=runs.get(folder),
            healthy=runs.get(told["baselines"].get(label)),
            failed=None if why is None else str(why),
        )


def _points(
    cells: Iterable[Cell], arms: list[str], parameters: Mapping[str, tuple[Any, ...]]
) -> tuple[Point, ...]:
    """Cells that differ in their seed only, together; in the order of the scenario."""

    def place(point: Point) -> tuple[int, ...]:
        at = [arms.index(point.arm) if point.arm in arms else len(arms)]
        for key, values in parameters.items():
            value = point.parameters.get(key)
            at.append(values.index(value) if value in values else len(values))
        return tuple(at)

    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.control is None:
            key = json.dumps([cell.arm, cell.parameters], sort_keys=True)
            found.setdefault(key, []).append(cell)
    points = [Point(same[0].arm, same[0].parameters, tuple(same)) for same in found.values()]
    return tuple(sorted(points, key=place))
