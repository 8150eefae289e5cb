"""What the trainer tells of a global step and of an evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # a record of results is read without torch
    from trainer.model import Hop
    from trainer.outer import Counts
    from trainer.replica import LocalRound


@dataclass(frozen=True, eq=False)
class StepResult:
    """What one global step did. Arrays are [replica, stage].

    train_loss: mean nats per predicted token over what took part; NaN when nobody did.
    train_tokens: tokens trained, each once however many stages it went through.
    forward_calls: forward passes of each slot, counted by hooks; evaluation apart.
    dropped: inner steps in which `stage_drop` left a live slot out: the rest of its steps.
    hop_tokens: tokens that went over each hop (from stage, to stage) forward, all replicas; where
        they went around a dropped stage, they count for the two hops by way of it.
    kept_values: values in the upload of each slot, counted in the upload.
    code_counts: int64[4], how often each 2-bit code was sent, all slots; zeros if none are.
    """

    train_loss: float
    train_tokens: int
    forward_calls: NDArray[np.int64]
    dropped: NDArray[np.int64]
    hop_tokens: dict[Hop, int]
    kept_values: NDArray[np.int64]
    code_counts: NDArray[np.int64]

    @staticmethod
    def of(rounds: Sequence[LocalRound], sent: Sequence[Counts]) -> StepResult:
        """From what every replica did, and what was sent of every stage."""
        tokens = sum(done.tokens for done in rounds)
        nats = math.fsum(done.nats for done in rounds)
        return StepResult(
            train_loss=nats / tokens if tokens else math.nan,
            train_tokens=tokens,
            forward_calls=np.stack([done.forward_calls for done in rounds]),
            dropped=np.stack([done.dropped for done in rounds]),
            hop_tokens=_sum(done.hops for done in rounds),
            kept_values=np.concatenate([counts.kept for counts in sent], axis=1),
            code_counts=np.sum([counts.codes for counts in sent], axis=0),
        )


@dataclass(frozen=True)
class Evaluation:
    """The anchor on the held-out sequences.

    val_loss: nats per token. val_bits_per_byte: the same per byte of the text predicted.
    skip_stage_loss: per inner stage, nats per token when that stage is skipped.
    """

    val_loss: float
    val_bits_per_byte: float
    skip_stage_loss: dict[int, float]


def _sum(hops: Iterable[Counter[Hop]]) -> dict[Hop, int]:
    """Of all replicas, in order of the hops; a count below zero is not hidden."""
    total: Counter[Hop] = Counter()
    for each in hops:
        total.update(each)
    return {hop: tokens for hop, tokens in sorted(total.items()) if tokens}
