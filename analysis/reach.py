"""What it took each run to come to one and the same loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.load import Run, Study

QUANTITIES = ("global_steps", "train_tokens", "end_s", "usd")


@dataclass(frozen=True)
class Reached:
    """Where a run first had a validation loss; between two evaluations by a straight line."""

    global_steps: float
    train_tokens: float
    end_s: float
    usd: float
    is_bound: bool = False
    """It was there by the first evaluation already, perhaps earlier."""


def common_loss(study: Study) -> float | None:
    """The highest of the final losses: every run that was evaluated has reached it."""
    found = [run.summary["val_loss"] for run in study.runs]
    return max((loss for loss in found if loss is not None), default=None)


def reach(run: Run, loss: float) -> Reached | None:
    """Where the run first came to the loss; None if it never did."""
    seen = run.evaluated()
    below = np.flatnonzero(seen["val_loss"].to_numpy() <= loss)
    if not len(below):
        return None
    k = int(below[0])
    if k == 0:
        return Reached(**{name: float(seen[name].iloc[0]) for name in QUANTITIES}, is_bound=True)
    before, after = seen.iloc[k - 1], seen.iloc[k]
    part = (before["val_loss"] - loss) / (before["val_loss"] - after["val_loss"])
    between = before + part * (after - before)
    return Reached(**{name: float(between[name]) for name in QUANTITIES}, is_bound=False)
