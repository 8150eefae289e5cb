"""What it took each run to come to one and the same loss."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.crossing import first_at
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


def asked_loss(study: Study) -> float | None:
    """The scenario's `target.val_loss`, where all runs have the same."""
    told = {(run.scenario.get("target") or {}).get("val_loss") for run in study.runs}
    return told.pop() if len(told) == 1 else None


def target_loss(study: Study) -> float | None:
    """What is asked for, else the highest of the final losses: every evaluated run reached it."""
    asked = asked_loss(study)
    if asked is not None:
        return asked
    found = [run.summary["val_loss"] for run in study.runs]
    return max((loss for loss in found if loss is not None), default=None)


def reach(run: Run, loss: float) -> Reached | None:
    """Where the run first came to the loss; None if it never did."""
    seen = run.evaluated()
    found = first_at(seen["val_loss"].tolist(), loss)
    if found is None:
        return None
    k, part = found
    if k == 0:
        return Reached(**{name: float(seen[name].iloc[0]) for name in QUANTITIES}, is_bound=True)
    before, after = seen.iloc[k - 1], seen.iloc[k]
    between = before + part * (after - before)
    return Reached(**{name: float(between[name]) for name in QUANTITIES}, is_bound=False)
