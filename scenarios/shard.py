"""One part of a study's trainings, for a job of an array."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scenarios.agenda import Group, grouped
from scenarios.plan import Plan
from scenarios.store import RunFolder


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, from 1."""

    index: int
    count: int

    @staticmethod
    def of(text: str) -> Shard:
        """From `i/n`. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        shard = Shard(*map(int, found.groups())) if found else None
        if shard is None or not 1 <= shard.index <= shard.count:
            raise ValueError(f"must be i/n with 1 <= i <= n, such as 2/8 (got {text!r})")
        return shard

    def runs(self, planned: Plan) -> set[RunFolder]:
        """The runs of this part; the parts hold every run once, whatever is finished.

        What begins in another training goes with it. Families are dealt out largest first, each to
        the part with least to do.
        """
        families: dict[str, list[Group]] = {}
        for group in grouped(planned.runs.values()):
            families.setdefault(_family(group), []).append(group)
        cost = {key: sum(group.flops() for group in same) for key, same in families.items()}
        loads = [0.0] * self.count
        mine: set[RunFolder] = set()
        for key in sorted(families, key=lambda key: (-cost[key], key)):
            part = loads.index(min(loads))
            loads[part] += cost[key] or 1.0
            if part == self.index - 1:
                mine |= {run.folder for group in families[key] for run in group.runs}
        return mine


def _family(group: Group) -> str:
    """Key of the training that the group begins in, or of its own."""
    training, folder = group.runs[0].training, group.runs[0].folder
    root: Path = folder.path
    if training is not None:
        root = training.fork.of.path if training.fork is not None else training.path
    return root.name
