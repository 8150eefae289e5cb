"""The cells of a study, seeds left aside: arms x parameter points, their no-failure runs, controls.

Each is a scenario of its own, laid over the document and checked before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from scenarios.consistency import NO_FAILURE
from scenarios.derive import no_failure
from scenarios.explain import explain
from scenarios.labels import joined, shorter, texts
from scenarios.layers import Layer
from scenarios.problems import Mark, Problem, got
from scenarios.schema import Scenario
from scenarios.shapes import fill_tags
from scenarios.strict_yaml import Node, node_of

SINGLE = "run"
"""The one cell of a scenario without arms or parameters."""
MOST_CELLS = 5000
NOT_IN_AN_ARM = ("name", "sweep", "extends")
NOT_A_PARAMETER = ("seed", *NOT_IN_AN_ARM)
Known = set[tuple[str, str]]


@dataclass(frozen=True)
class Cell:
    """A point of a study; with a seed it is a run."""

    label: str
    arm: str | None
    """Of a no-failure run or control: the one arm it serves, None if several."""
    parameters: Mapping[str, Any]
    """key.path -> value; of a no-failure run or control those it does not share between values."""
    control: str | None
    """None: things may break. NO_FAILURE, or the control's name."""
    scenario: Scenario
    baseline: str
    """Label of the no-failure run it is compared with; its own where it is one."""


def lay_out(root: Node, known: Known) -> tuple[list[Cell], list[Problem]]:
    """Every cell, no-failure runs first, and the problems that the document alone does not have.

    known: (key, message) of the document's own problems.
    """
    assert isinstance(root.value, dict)
    document = Node({key: node for key, node in root.value.items() if key != "sweep"}, root.at)
    sweep = root.value.get("sweep")
    axes = _Axes.of(sweep)
    if sweep is not None and axes.count > MOST_CELLS:
        text = f"{axes.count:,} cells; a study has {MOST_CELLS:,} at most"
        return [], [Problem(sweep.key_at or sweep.at, "sweep", text)]
    problems = list(axes.problems())
    points: list[Cell] = []
    told: dict[tuple[Mark, str, str], Problem] = {}
    for point in axes.points():
        scenario, found = point.over(document)
        for p in found:
            if (p.key, p.message) not in known:
                told.setdefault((p.at, p.key, p.message), point.blame(p))
        if scenario is not None:
            points.append(Cell(point.label, point.arm, point.values, None, scenario, ""))
    problems += told.values()
    if problems or known:
        return [], problems
    healthy, cells = _with_no_failure(points, axes)
    controls, found = _controls(healthy, axes)
    return [*healthy, *cells, *controls], found


def validate(root: Node) -> tuple[Scenario | None, list[Problem]]:
    """The scenario of a document, or what is wrong with it."""
    try:
        return Scenario.model_validate(root.plain()), []
    except ValidationError as error:
        return None, explain(error, root, Scenario)


def laid_over(base: Node, keys: Node, barred: tuple[str, ...]) -> list[Problem]:
    """Set the keys of a map key.path -> value in a document; what cannot be set is told."""
    layer = Layer(base, Scenario, barred)
    entries = keys.value.items() if isinstance(keys.value, dict) else ()
    return [problem for key, value in entries for problem in layer.assign(key, value)]


# --- arms x parameters ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    label: str
    arm: str | None
    over_arm: Node | None
    chosen: Node
    """Of each parameter the value it has here."""
    parameters_at: Mark

    @property
    def values(self) -> dict[str, Any]:
        values = self.chosen.plain()
        assert isinstance(values, dict), "key.path -> value"
        return values

    def over(self, document: Node) -> tuple[Scenario | None, list[Problem]]:
        base = document.clone()
        problems = [] if self.over_arm is None else laid_over(base, self.over_arm, NOT_IN_AN_ARM)
        problems += laid_over(base, self.chosen, NOT_A_PARAMETER)
        fill_tags(base, Scenario)
        scenario, found = validate(base)
        return scenario, problems + found

    def blame(self, p: Problem) -> Problem:
        """The problem at the line of the sweep that brings it in."""
        assert isinstance(self.chosen.value, dict)
        for key, value in self.chosen.value.items():
            named = p.key == key or p.key.startswith(f"{key}.")
            if p.at in value.marks() and (named or p.at.line):
                return Problem(p.at, f"sweep.parameters.{p.key if named else key}", p.message)
        if self.over_arm is not None and p.at in self.over_arm.marks():
            return Problem(p.at, f"sweep.arms.{self.arm}.{p.key}", p.message)
        if self.chosen.value:
            text = f"{p.message} (in the cell '{self.label}')"
            return Problem(self.parameters_at, f"sweep.parameters: {p.key}", text)
        assert self.over_arm is not None, "else the document has the problem itself"
        line = self.over_arm.key_at or self.over_arm.at
        return Problem(line, f"sweep.arms.{self.arm}.{p.key}", p.message)


@dataclass(frozen=True)
class _Axes:
    """What a sweep says, as far as it can be read; what cannot is the schema's to tell."""

    arms: dict[str, Node]
    parameters: dict[str, list[Node]]
    parameters_at: Mark
    controls: dict[str, Node]
    listed_seeds: list[Node]
    seeds: int
    """How many a point may come to."""

    @staticmethod
    def of(sweep: Node | None) -> _Axes:
        blocks = sweep.value if sweep is not None and isinstance(sweep.value, dict) else {}

        def maps(key: str) -> dict[str, Node]:
            block = blocks.get(key)
            return block.value if block is not None and isinstance(block.value, dict) else {}

        lists = {}
        for key, values in maps("parameters").items():
            if isinstance(values.value, list) and values.value:
                lists[key] = [Node(v.value, v.at, values.key_at) for v in values.value]
        at = blocks["parameters"].key_at if lists else None
        seeds = blocks["seeds"].plain() if "seeds" in blocks else 1
        seeds = seeds.get("max", 10) if isinstance(seeds, dict) else seeds
        seeds = len(seeds) if isinstance(seeds, list) else seeds
        count = seeds if isinstance(seeds, int) and seeds > 0 else 1
        listed = blocks["seeds"].value if "seeds" in blocks else []
        named = listed if isinstance(listed, list) else []
        return _Axes(maps("arms"), lists, at or Mark(""), maps("controls"), named, count)

    @property
    def count(self) -> int:
        """Cells, seeds included."""
        points = math.prod(map(len, self.parameters.values()))
        return max(1, len(self.arms)) * points * self.seeds

    @property
    def names(self) -> dict[str, str]:
        """What each parameter is called in labels; those with one value are not named."""
        return shorter([key for key, values in self.parameters.items() if len(values) > 1])

    def points(self) -> Iterator[_Point]:
        names = self.names
        told = {k: texts([v.plain() for v in values]) for k, values in self.parameters.items()}
        arms: list[tuple[str | None, Node | None]] = [*self.arms.items()] or [(None, None)]
        for arm, over_arm in arms:
            for picked in product(*(range(len(v)) for v in self.parameters.values())):
                at = dict(zip(self.parameters, picked, strict=True))
                chosen = {key: self.parameters[key][i] for key, i in at.items()}
                parts = [f"{name}={told[key][at[key]]}" for key, name in names.items()]
                label = joined([*([arm] if arm is not None else []), *parts]) or SINGLE
                node = Node({**chosen}, self.parameters_at)
                yield _Point(label, arm, over_arm, node, self.parameters_at)

    def problems(self) -> Iterator[Problem]:
        """Values that are there twice, names that are taken."""
        for key, values in self.parameters.items():
            yield from _twice(f"sweep.parameters.{key}", values)
        yield from _twice("sweep.seeds", self.listed_seeds)
        for name, control in self.controls.items():
            if name in self.arms or name in (NO_FAILURE, SINGLE):
                text = "is the name of an arm or of the no-failure run; choose another"
                yield Problem(control.key_at or control.at, f"sweep.controls.{name}", text)


def _twice(key: str, values: Sequence[Node]) -> Iterator[Problem]:
    seen: list[Any] = []
    for value in values:
        plain = value.plain()  # 1 and 1.0 are one number; true is none
        is_bool = isinstance(plain, bool)
        if any(plain == other and is_bool == isinstance(other, bool) for other in seen):
            yield Problem(value.at, key, f"is there twice {got(plain)}")
        seen.append(plain)


# --- no-failure runs and controls -------------------------------------------------------------


def _with_no_failure(points: Sequence[Cell], axes: _Axes) -> tuple[list[Cell], list[Cell]]:
    """The distinct no-failure runs, and the points with the label of theirs."""
    groups: dict[str, list[Cell]] = {}
    twins: dict[str, Scenario] = {}
    for point in points:
        twin = no_failure(point.scenario)
        key = twin.model_dump_json()
        twins[key] = twin
        groups.setdefault(key, []).append(point)
    healthy: list[Cell] = []
    cells: list[Cell] = []
    for key, group in groups.items():
        arm, parameters = _in_common(group)
        own_arm = arm if len(axes.arms) > 1 and len(groups) > 1 else None
        own = {k: v for k, v in parameters.items() if k in axes.names and len(groups) > 1}
        label = _label(NO_FAILURE, own_arm, own, axes)
        if any(label == other.label for other in healthy):  # arms a, b share one and c, d another
            label = _label(NO_FAILURE, group[0].arm, group[0].parameters, axes)
        healthy.append(Cell(label, own_arm, own, NO_FAILURE, twins[key], label))
        cells += [Cell(c.label, c.arm, c.parameters, None, c.scenario, label) for c in group]
    order = {point.label: i for i, point in enumerate(points)}
    return healthy, sorted(cells, key=lambda cell: order[cell.label])


def _in_common(group: Sequence[Cell]) -> tuple[str | None, dict[str, Any]]:
    """The arm and the values of parameters that all cells of a group have."""
    first = group[0]
    arm = first.arm if all(cell.arm == first.arm for cell in group) else None
    kept = {
        key: value
        for key, value in first.parameters.items()
        if all(cell.parameters[key] == value for cell in group)
    }
    return arm, kept


def _label(first: str, arm: str | None, parameters: Mapping[str, Any], axes: _Axes) -> str:
    parts = [first, *([arm] if arm is not None else [])]
    for key, name in axes.names.items():
        if key in parameters:
            values = [node.plain() for node in axes.parameters[key]]
            parts.append(f"{name}={texts(values)[values.index(parameters[key])]}")
    return joined(parts)


def _controls(healthy: Sequence[Cell], axes: _Axes) -> tuple[list[Cell], list[Problem]]:
    """Each control over every no-failure run."""
    cells: list[Cell] = []
    problems: list[Problem] = []
    for name, control in axes.controls.items():
        line = control.key_at or control.at
        for twin in healthy:
            base = node_of(twin.scenario.model_dump(), line)
            found = laid_over(base, control, NOT_A_PARAMETER)
            fill_tags(base, Scenario)
            scenario, more = validate(base)
            problems += [
                Problem(p.at, f"sweep.controls.{name}.{p.key}", p.message) for p in found + more
            ]
            if scenario is not None:
                label = _label(name, twin.arm, twin.parameters, axes)
                cells.append(Cell(label, twin.arm, twin.parameters, name, scenario, twin.label))
    return cells, problems
