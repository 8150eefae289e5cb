"""From the clock to the trainer: the training half of a global step, and a digest of many."""

from __future__ import annotations

import hashlib

from sim.records import GlobalStep
from trainer.directive import Directive


def directive(g: GlobalStep) -> Directive:
    """The training half of a global step."""
    return Directive(g.index, g.steps, g.sends, g.joins)


def chained(digest: str, told: Directive) -> str:
    """A digest of Directives, with one more; that of none is empty."""
    return hashlib.sha256((digest + told.key()).encode()).hexdigest()
