"""The engine's results of a study as a grid: what was billed, before prices. Reads summaries.

A cell is a run: hours, tokens, worker-hours by pool, gigabytes by link. Prices are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis.folders import AnalysisError, Entry, broken, find
from analysis.interpolation import Scale
from analysis.markets import PoolPrice, fallback_of, market_of, prices_of
from analysis.numbers import HOUR_S
from analysis.sweep import PROBABILITY, Cell, Point, Sweep, short, sweep_of

GB, MONTH_S = 1e9, 730 * HOUR_S
LINKS = ("stages", "store", "replicas")
KINDS = ("boundary", "sync", "restore", "snapshot", "lost")
PLAIN = ("hours", "tokens", "token_share", "full_depth_token_share", "degraded_share",
         "gb_months")  # fmt: skip
GAP, ROUNDS = "gap", "outage_rounds"
"""Nats by which a trained run ended above its no-failure run, and the mean length of its outages in
global steps; runs without lack them."""
PRICES = ("usd_per_h", "usd_per_gb", "usd_per_gb_month", "market", "instance")
"""Keys that change a bill and no run."""
WORDS = {
    "losses_per_h": ("losses of a spot worker", "an hour up"),
    "mean_outage_h": ("mean outage", "h"),
    "after_wait_s": ("wait before a fallback", "s"),
    PROBABILITY: ("failures of a replica", "a global step"),
    "outages.duration_global_steps": ("outage", "global steps"),
}
STEP_TIME = ("healthy global step", "s")
STEP_KNOB = "global_step_s"
"""An axis of such seconds is not called by the key that was swept, whose values are others."""

Values = Mapping[str, float]
"""A run: quantity -> number."""


@dataclass(frozen=True)
class Axis:
    """A swept number."""

    key: str
    knob: str
    """Its name on the command line and in the page's address."""
    title: str
    unit: str
    knots: tuple[float, ...]
    """Ascending."""
    scale: Scale = "linear"
    """On which the interpolation is straight."""


@dataclass(frozen=True)
class Option:
    """An arm: where the workers come from and what is done about a loss."""

    name: str
    market: str
    """Of those it hires: spot, on-demand, reserved, mix."""
    policy: str
    codec: str
    fallback: str
    """Where a slot falls back, and when; empty: nowhere."""
    cells: tuple[tuple[Values, ...] | None, ...]
    """By flat index (last axis fastest) the runs, one a seed; None: not all have finished."""


@dataclass(frozen=True)
class Grid:
    """All that a what-if page knows."""

    name: str
    axes: tuple[Axis, ...]
    options: tuple[Option, ...]
    seeds: tuple[int, ...]
    pools: Mapping[str, PoolPrice]
    usd_per_gb: Mapping[str, float]
    """By link; of those that have traffic."""
    usd_per_gb_month: float
    global_steps: int
    unfinished: int
    """Runs that the study plans and has not finished."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """Keys of every run; some have a gap and a mean outage as well."""
        pools = (f"node_h.{name}" for name in self.pools)
        links = (f"gb.{link}" for link in LINKS)
        return (*PLAIN, *pools, *links, *(f"kind_gb.{kind}" for kind in KINDS))

    @property
    def fallbacks(self) -> dict[str, list[str]]:
        """Options by where and when they fall back."""
        found: dict[str, list[str]] = {}
        for option in self.options:
            if option.fallback:
                found.setdefault(option.fallback, []).append(option.name)
        return found

    def option(self, name: str) -> Option:
        """An option by its name."""
        return next(option for option in self.options if option.name == name)


def read_grid(folder: Path) -> Grid:
    """The grid of a study folder.

    Raises:
        AnalysisError: no study, nothing finished, or one whose prices differ between runs.
    """
    listing = find(folder)
    sweep = sweep_of(listing)
    if sweep is None:
        raise AnalysisError(
            f"{folder}: not a study over parameters or seeds; a what-if page needs a grid of runs"
        )
    _check_axes(folder, sweep)
    keys = sorted(sweep.numeric, key=lambda key: key != sweep.along)
    axes = tuple(_axis(sweep, key) for key in keys)
    first = {point.arm: _entry(point) for point in reversed(sweep.points) if point.done}
    scenarios = {arm: scenario_of(entry) for arm, entry in first.items() if entry is not None}
    if not scenarios:
        text = "no run with failures has finished; give `stageout run` the scenario again"
        raise AnalysisError(f"{folder}: {text} and it goes on")
    try:
        pools, usd_per_gb, stored = prices_of(folder, scenarios)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        broken(folder, f"prices in a scenario.yaml of it ({type(error).__name__}: {error})")
    options = tuple(
        _option(sweep, arm, scenarios[arm], axes, pools)
        for arm in (sweep.arms or (None,))
        if arm in scenarios
    )
    total = [cell for cell in sweep.cells if cell.control is None]
    return Grid(
        name=listing.name,
        axes=axes,
        options=options,
        seeds=common_seeds(sweep),
        pools=pools,
        usd_per_gb=usd_per_gb,
        usd_per_gb_month=stored,
        global_steps=int(listing.entries[0].summary["global_steps"]),
        unfinished=sum(cell.entry is None for cell in total),
    )


def common_seeds(sweep: Sweep) -> tuple[int, ...]:
    """Seeds that all points have; some may have more."""
    every = [{cell.seed for cell in point.cells} for point in sweep.points]
    return tuple(seed for seed in sweep.seeds if all(seed in own for own in every))


def _check_axes(folder: Path, sweep: Sweep) -> None:
    for key, values in sweep.parameters.items():
        if key.rpartition(".")[2] in PRICES:
            text = "the page has prices of its own; leave it out of the sweep"
            raise AnalysisError(f"{folder}: {key} is swept: {text}")
        if len(values) > 1 and key not in sweep.numeric:
            text = "it is no number to interpolate on; make an arm of each value"
            raise AnalysisError(f"{folder}: {key} is swept: {text}")


def _entry(point: Point) -> Entry | None:
    return point.done[0].entry


def scenario_of(entry: Entry) -> dict[str, Any]:
    """What a run's scenario says of pools, network and method."""
    path = entry.path / "scenario.yaml"
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
        return {key: found[key] for key in ("pools", "network", "method")}
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        broken(path, f"pools, network and method are expected ({type(error).__name__})")


def _axis(sweep: Sweep, key: str) -> Axis:
    """A parameter; keys that only make the job slower or faster become seconds of a step."""
    title, unit = WORDS.get(key) or WORDS.get(key.rpartition(".")[2]) or ("", "")
    knob = short(key, sweep.parameters).replace(" ", "_")
    knots = tuple(sorted(map(float, sweep.parameters[key])))
    seconds = _step_seconds(sweep, key)
    if key.startswith("work.") and len(set(seconds.values())) == len(knots):
        (title, unit), knob = STEP_TIME, STEP_KNOB
        knots = tuple(sorted(seconds.values()))
    return Axis(key, knob, title or knob.replace("_", " "), unit, knots)


def _step_seconds(sweep: Sweep, key: str) -> dict[Any, float]:
    """By value of a parameter the seconds of a healthy global step; nothing where they differ."""
    found: dict[Any, set[float]] = {}
    for cell in sweep.cells:
        if cell.control is None and cell.healthy is not None:
            told = cell.healthy.summary
            found.setdefault(cell.parameters[key], set()).add(
                round(told["wall_s"] / told["global_steps"], 3)
            )
    if any(len(seconds) > 1 for seconds in found.values()):
        return {}
    return {value: min(seconds) for value, seconds in found.items()}


def _places(sweep: Sweep, axis: Axis) -> dict[Any, int]:
    """By value of a parameter its index on the axis."""
    if (axis.title, axis.unit) == STEP_TIME:
        seconds = _step_seconds(sweep, axis.key)
        return {value: axis.knots.index(s) for value, s in seconds.items()}
    return {value: axis.knots.index(float(value)) for value in sweep.parameters[axis.key]}


def _option(
    sweep: Sweep,
    arm: str | None,
    scenario: Mapping[str, Any],
    axes: tuple[Axis, ...],
    pools: Mapping[str, PoolPrice],
) -> Option:
    count = 1
    for axis in axes:
        count *= len(axis.knots)
    cells: list[tuple[Values, ...] | None] = [None] * count
    policy, used, seeds = "", set[str](), common_seeds(sweep)
    fallback = fallback_of(scenario, sweep.parameters)
    places = {axis.key: _places(sweep, axis) for axis in axes}
    for point in sweep.points:
        if point.arm != arm or len(point.done) < len(point.cells):
            continue
        flat = 0
        for axis in axes:
            flat = flat * len(axis.knots) + places[axis.key][point.parameters[axis.key]]
        kept = [cell for cell in _by_seed(point.done) if cell.seed in seeds]
        cells[flat] = tuple(_values(cell, pools, falls_back=bool(fallback)) for cell in kept)
        for cell in kept:
            assert cell.entry is not None, "done"
            told = cell.entry.summary
            used |= {name for name, s in told["billed"]["node_s"].items() if s > 0}
            policy = policy or policy_of(told)
    return Option(
        name=arm or "run",
        market=market_of(used, scenario, pools),
        policy=policy,
        codec=codec_of(scenario),
        fallback=fallback,
        cells=tuple(cells),
    )


def policy_of(summary: Mapping[str, Any]) -> str:
    """Names of a run's policies without their limits: `skip idle`."""
    told = summary["policy"]
    return " ".join(name if isinstance(name, str) else next(iter(name)) for name in told)


def codec_of(scenario: Mapping[str, Any]) -> str:
    """What crosses stage boundaries in a run."""
    return str(scenario["method"].get("boundary", {}).get("codec", "none"))


def mean_outage_rounds(summary: Mapping[str, Any]) -> float | None:
    """Mean outage of a run in its global steps; None where none has ended."""
    mean_s = summary["mean_outage_s"]
    return None if mean_s is None else float(mean_s / summary["wall_s"] * summary["global_steps"])


def _by_seed(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: cell.seed)


def _values(cell: Cell, pools: Mapping[str, PoolPrice], falls_back: bool) -> Values:
    """A run before prices.

    Where slots fall back, the outages of workers do not tell how long slots were out.
    """
    assert cell.entry is not None, "done"
    told = cell.entry.summary
    try:
        billed = told["billed"]
        amounts = {
            "gb_months": billed["stored_byte_s"] / GB / MONTH_S,
            **{f"node_h.{name}": billed["node_s"].get(name, 0.0) / HOUR_S for name in pools},
            **{f"gb.{link}": billed["bytes"][link] / GB for link in LINKS},
        }
    except (KeyError, TypeError, AttributeError):
        broken(cell.entry.path / "summary.json",
               "billed: node_s by pool, bytes by link and stored_byte_s are expected")  # fmt: skip
    rounds = None if falls_back else mean_outage_rounds(told)
    return {
        "hours": told["wall_s"] / HOUR_S,
        **{key: told[key] for key in PLAIN[1:5]},
        **amounts,
        **{f"kind_gb.{kind}": told["bytes"][kind] / GB for kind in KINDS},
        **{key: value for key, value in
           {ROUNDS: rounds, GAP: told["val_loss_gap"]}.items()
           if value is not None},
    }  # fmt: skip
