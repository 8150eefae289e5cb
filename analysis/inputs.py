"""What went in: every key of the scenario with its provenance, and where the runs ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import numbers
from analysis.load import Run

LISTED = "listed"
"""What a row of the catalogue tells, with its date and source."""
PROVENANCE = {
    "work": "assumed",
    "pools": "assumed",
    "network": "assumed",
    "outages": "assumed",
    "catalogue": LISTED,
}
"""Blocks whose values are taken on trust; the others are choices of the experiment."""
CHOSEN = "chosen"
RECORDED = "recorded"
SWEPT = "swept"
NOT_TOLD = ("name", "expect", "sweep")
MOST_ROWS = 400
MANY = 12
"""Of more runs than this what differs is told in one row."""


@dataclass(frozen=True)
class Input:
    """A key, what it was, where that comes from."""

    key: str
    value: str
    kind: str


@dataclass(frozen=True)
class Differing:
    """Keys in which runs differ: a row a key, a value a run."""

    cells: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """`key.path` and value of everything in nested maps; lists stay whole."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, "{}" if isinstance(value, Mapping) else numbers.plain(value)


def scenario_inputs(runs: Sequence[Run]) -> tuple[list[Input], Differing]:
    """Keys that all runs share, and those in which they differ.

    A no-failure run differs from its arms by design, so it is left out where there are others.
    """
    told = [run for run in runs if not run.is_baseline] or list(runs)
    every = [dict(_scenario(run.scenario)) for run in told]
    same, differing = _split(every)
    kind = {key: PROVENANCE.get(key.partition(".")[0], CHOSEN) for key in same}
    kind |= dict.fromkeys(set.intersection(*(set(_listed(r.scenario)) for r in told)), LISTED)
    inputs = [Input(key, value, kind[key]) for key, value in same.items()]
    return inputs[:MOST_ROWS], Differing(tuple(r.cell for r in told), tuple(differing.items()))


def _listed(scenario: Mapping[str, Any]) -> Iterator[str]:
    """Keys of pools and work whose value is that of the catalogue's row."""
    rows = scenario.get("catalogue") or {}
    for name, pool in (scenario.get("pools") or {}).items():
        if not isinstance(pool, Mapping) or not pool.get("instance"):
            continue
        row = (rows.get("instances") or {}).get(pool["instance"]) or {}
        for key, its in (
            ("usd_per_h", f"{pool.get('market')}_usd_per_h"),
            ("notice_s", "notice_s"),
        ):
            if pool.get(key) is not None and pool[key] == row.get(its):
                yield f"pools.{name}.{key}"
    work = scenario.get("work") or {}
    device = (rows.get("devices") or {}).get(work.get("device"))
    if device is not None and work.get("peak_tflops") == work.get("gpus") * device["dense_tflops"]:
        yield "work.peak_tflops"


def of_sweep(key: str, values: Sequence[Any]) -> Input:
    """A key that a study varies, with all its values."""
    return Input(key, ", ".join(map(numbers.plain, values)), SWEPT)


def _scenario(scenario: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return flat({key: value for key, value in scenario.items() if key not in NOT_TOLD})


def machine_inputs(runs: Sequence[Run]) -> list[Input]:
    """Versions, machine and corpus; measured times run by run."""
    every = [dict(flat({k: v for k, v in r.env.items() if k != "measured_s"})) for r in runs]
    same, differing = _split(every)
    found = [Input(key, value, RECORDED) for key, value in same.items()]
    if len(runs) > MANY:
        found += [
            Input(key, " or ".join(list(dict.fromkeys(values))[:MANY]), RECORDED)
            for key, values in differing.items()
        ]
        return found + _time_here("of all runs", [_spent(run) for run in runs])
    found += [
        Input(f"{key}: {run.cell}", value, RECORDED)
        for key, values in differing.items()
        for run, value in zip(runs, values, strict=True)
    ]
    for run in runs:
        found += _time_here(run.cell, [_spent(run)])
    return found[:MOST_ROWS]


def _spent(run: Run) -> Mapping[str, Any]:
    spent = run.env.get("measured_s")
    return spent if isinstance(spent, Mapping) else {}


def _time_here(whose: str, spent: Sequence[Mapping[str, Any]]) -> list[Input]:
    """Measured seconds by what they went to, summed."""
    total: dict[str, float] = {}
    for one in spent:
        for what, seconds in one.items():
            if isinstance(seconds, int | float):
                total[what] = total.get(what, 0.0) + seconds
    text = ", ".join(f"{what} {numbers.plain(s)} s" for what, s in total.items())
    return [Input(f"time here: {whose}", text, "measured")] if total else []


def _split(
    every: Sequence[Mapping[str, str]],
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Keys with one value in all maps, and the others with all their values."""
    same: dict[str, str] = {}
    differing: dict[str, tuple[str, ...]] = {}
    for key in dict.fromkeys(key for one in every for key in one):
        values = tuple(one.get(key, numbers.NOTHING) for one in every)
        if len(set(values)) == 1:
            same[key] = values[0]
        else:
            differing[key] = values
    return same, differing
