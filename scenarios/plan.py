"""The plan of a study: its runs, what each is compared with, and what is trained once for many."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scenarios.cells import SINGLE
from scenarios.identity import training_identity, training_key
from scenarios.labels import with_seed
from scenarios.load import Loaded
from scenarios.outlook import Outlook, look_ahead
from scenarios.schema import Scenario, Sweep
from scenarios.session import Run
from scenarios.store import RunFolder
from scenarios.trained import STORE, Fork, Training
from sim.config import TraceOutages

WORTH_A_FORK = 0.05
"""Share of a run that it must have in common with its no-failure run to begin there: the state to
begin from is written for it, and kept until it has."""


@dataclass(frozen=True)
class Point:
    """Where in the study a run stands."""

    arm: str | None
    parameters: Mapping[str, Any]
    seed: int
    control: str | None


@dataclass(frozen=True)
class Plan:
    """What to run: every cell and seed, and for each the no-failure run it is compared with."""

    name: str
    folder: Path
    sweep: Sweep
    runs: dict[RunFolder, Run] = field(default_factory=dict)
    """Distinct runs, no-failure runs first: the others are compared with them."""
    cells: dict[str, RunFolder] = field(default_factory=dict)
    baselines: dict[str, RunFolder] = field(default_factory=dict)
    points: dict[str, Point] = field(default_factory=dict)
    bounds: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each cell expects of its summary, though another may be the very same run."""
    seeds: dict[str, list[str]] = field(default_factory=dict)
    """By label without seed, the cells that differ in it alone."""
    outlooks: dict[RunFolder, Outlook] = field(default_factory=dict)
    """Of the runs that train."""

    def todo(self) -> list[Run]:
        """Runs that are not finished yet."""
        return [run for folder, run in self.runs.items() if not folder.is_done]

    def baseline_of(self, run: Run) -> RunFolder:
        return self.baselines[run.cell]


def plan(
    loaded: Loaded,
    out: Path,
    with_training: bool = True,
    added: Mapping[str, int] | None = None,
) -> Plan:
    """Lay out the runs of a scenario; what is trained is simulated first. Nothing is written.

    added: by label of a cell without seed, how many seeds it has beyond the first ones.
    """
    sweep = loaded.scenario.sweep or Sweep(seeds=1)
    planned = Plan(loaded.scenario.name, out / loaded.scenario.name, sweep)
    counts = _seed_counts(loaded, sweep, added or {})
    healthy: dict[tuple[str, int], Scenario] = {}
    for cell in loaded.study:
        first = sweep.first_seeds(cell.scenario.seed)
        seeds = [*first, *(first[-1] + 1 + i for i in range(counts[cell.label] - len(first)))]
        for seed in seeds:
            label = with_seed(cell.label, seed, SINGLE) if sweep.most_seeds > 1 else cell.label
            seeded = cell.scenario.model_copy(update={"seed": seed})
            scenario = prepared(seeded, loaded.root, with_training)
            if cell.baseline == cell.label:
                healthy[cell.label, seed] = scenario
            against = healthy[cell.baseline, seed]
            is_control = cell.control is not None and cell.baseline != cell.label
            folder = RunFolder.of(out, scenario, against if is_control else None)
            planned.cells[label] = folder
            planned.baselines[label] = RunFolder.of(out, against)
            planned.points[label] = Point(cell.arm, cell.parameters, seed, cell.control)
            planned.bounds[label] = scenario.expect
            planned.seeds.setdefault(cell.label, []).append(label)
            planned.runs.setdefault(folder, Run(label, scenario, folder, None))
    _plan_training(planned, out / STORE)
    return planned


def _seed_counts(loaded: Loaded, sweep: Sweep, added: Mapping[str, int]) -> dict[str, int]:
    """Seeds by label of a cell; a no-failure run has those of whoever is compared with it."""
    first = len(sweep.first_seeds(0))
    counts = {cell.label: first + added.get(cell.label, 0) for cell in loaded.study}
    for cell in loaded.study:
        counts[cell.baseline] = max(counts[cell.baseline], counts[cell.label])
    return counts


def prepared(scenario: Scenario, root: Path, with_training: bool) -> Scenario:
    """A cell as it is run: paths made absolute, training left out if asked."""
    if isinstance(scenario.outages, TraceOutages):
        path = os.path.realpath(root / scenario.outages.path)
        outages = scenario.outages.model_copy(update={"path": path})
        scenario = scenario.model_copy(update={"outages": outages})
    if scenario.train is None:
        return scenario
    if not with_training:
        work = scenario.work.model_copy(
            update={"model": scenario.timed_model(), "sequences": scenario.timed_sequences()}
        )
        return scenario.model_copy(update={"train": None, "work": work})
    data = scenario.train.data
    given = {key: getattr(data, key, None) for key in ("path", "held_out")}
    # Path.resolve raises where links go round in a circle: whoever reads the file tells it better
    paths = {key: os.path.realpath(root / path) for key, path in given.items() if path is not None}
    data = data.model_copy(update=paths)
    train = scenario.train.model_copy(update={"data": data})
    return scenario.model_copy(update={"train": train})


# --- train each thing once --------------------------------------------------------------------


def _plan_training(planned: Plan, store: Path) -> None:
    """Give every run that trains its training; runs with equal keys have the same."""
    identities: dict[RunFolder, dict[str, Any]] = {}
    trainings: dict[Path, Training] = {}
    paths: dict[RunFolder, Path] = {}
    for folder, run in planned.runs.items():
        if run.scenario.train is None:
            continue
        ahead = planned.outlooks[folder] = look_ahead(run.scenario)
        identity = identities[folder] = training_identity(run.scenario)
        path = paths[folder] = store / training_key(identity, ahead.directives)
        trainings.setdefault(path, Training(path, ahead.directives, ahead.global_steps))
    forks = _forks(planned, identities, paths)
    for base, at in forks.values():
        kept = trainings[base].keep_at | {at}
        trainings[base] = replace(trainings[base], keep_at=kept)
    for path, (base, at) in forks.items():
        trainings[path] = replace(trainings[path], fork=Fork(trainings[base], at))
    for folder, path in paths.items():
        planned.runs[folder] = replace(planned.runs[folder], training=trainings[path])


def _forks(
    planned: Plan, identities: Mapping[RunFolder, dict[str, Any]], paths: Mapping[RunFolder, Path]
) -> dict[Path, tuple[Path, int]]:
    """By training that begins in its no-failure run's: that one, and after how many global steps.

    Until somebody joins, `on_return` changes nothing.
    """

    def until_joined(folder: RunFolder) -> dict[str, Any]:
        return {key: told for key, told in identities[folder].items() if key != "on_return"}

    found: dict[Path, tuple[Path, int]] = {}
    for folder, path in paths.items():
        run, base = planned.runs[folder], planned.baseline_of(planned.runs[folder])
        common, steps = planned.outlooks[folder].healthy_steps, run.scenario.global_steps
        shares = (
            base in paths
            and until_joined(folder) == until_joined(base)
            and run.scenario.stop.val_loss is None  # whether it comes so far is not known
            and common < planned.outlooks[base].global_steps
        )
        if shares and path != paths[base] and WORTH_A_FORK * steps <= common < steps:
            found[path] = (paths[base], common)
    return found
