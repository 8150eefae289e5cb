"""How slots spent their time, binned: every second of the timeline is kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.folders import CLASSES
from analysis.load import STATES

OUT = ("vacant", "provision", "restore")
"""States and classes in which a slot is out: nobody in it, or not ready."""
HELD_UP = ("wait", "lost")
"""Those of a slot whose worker is there and does nothing that counts."""
STEPS = ("compute", "boundary", "bubble")
"""Classes that make up the inner steps."""


def seconds_by_bin(
    slots: pd.DataFrame, row: NDArray[np.int64], rows: int, wall_s: float, bins: int
) -> NDArray[np.float64]:
    """Seconds spent in each state: [rows, states, bins], states as in `STATES`.

    Args:
        slots: the timeline.
        row: [len(slots)] output row that each line of the timeline goes to.
        wall_s: end of the last bin; bins are equally long and start at 0.
    """
    width_s = wall_s / bins
    state = state_codes(slots)
    start = np.clip(slots["start_s"].to_numpy(np.float64) / width_s, 0, bins)
    end = np.clip(slots["end_s"].to_numpy(np.float64) / width_s, 0, bins)
    first = np.minimum(start.astype(np.int64), bins - 1)
    last = np.minimum(end.astype(np.int64), bins - 1)
    edges = np.zeros((rows, len(STATES), bins + 1))
    # whole bins first .. last - 1 by a running sum, then what the two ends have too much or little
    np.add.at(edges, (row, state, first), 1.0)
    np.add.at(edges, (row, state, last), -1.0)
    whole = edges.cumsum(axis=2)[:, :, :-1]
    np.add.at(whole, (row, state, first), first - start)
    np.add.at(whole, (row, state, last), end - last)
    return whole * width_s


def state_codes(slots: pd.DataFrame) -> NDArray[np.int64]:
    """Index into `STATES` of each line of the timeline."""
    state = slots["state"].astype("category").cat
    place = np.array([STATES.index(name) for name in state.categories], dtype=np.int64)
    return place[state.codes.to_numpy()] if len(slots) else np.zeros(0, dtype=np.int64)


def shares(slots: pd.DataFrame) -> dict[str, float]:
    """Share of all slot time by state, exact."""
    seconds = (slots["end_s"] - slots["start_s"]).groupby(slots["state"], observed=True).sum()
    total = float(seconds.sum())
    return {name: float(seconds.get(name, 0.0)) / total if total else 0.0 for name in STATES}


def by_round(
    steps: pd.DataFrame, classes: tuple[str, ...], most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of the slot time that each global step spent in some classes.

    Unlike the timeline's states, the classes tell waiting at a barrier from training.

    Args:
        most: no more parts than this; more global steps are put together.

    Returns:
        Instants between the parts, in seconds, and the share in each.
    """
    groups = np.unique(np.linspace(0, len(steps), min(most, len(steps)) + 1).astype(np.int64))
    end_s = np.concatenate([[0.0], steps["end_s"].to_numpy(np.float64)])
    seconds = {name: steps[f"{name}_s"].to_numpy(np.float64) for name in CLASSES}
    part = np.add.reduceat(sum(seconds[name] for name in classes), groups[:-1])
    total = np.add.reduceat(sum(seconds.values()), groups[:-1])
    share: NDArray[np.float64] = np.divide(
        part, total, out=np.zeros(len(groups) - 1), where=total > 0
    )
    return end_s[groups], share
