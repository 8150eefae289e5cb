"""What the trainer is told of one global step. Torch-free: no clock, no money."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Directive:
    """The training half of a global step. Arrays are [replica, stage] and read-only.

    steps: int, 0..H: inner steps in which the slot trains; `live[h] = h < steps` is the
        live-stage mask. An idle or stopped replica is all 0.
    sends: bool: the slot's pseudo-gradient is in the aggregate.
    joins: 0 no; 1 the same worker; 2 a new one. Applies before the first inner step: the slot
        starts from the anchor, and with the moments and error feedback of `train.on_return`.
    """

    index: int
    steps: NDArray[np.int32]
    sends: NDArray[np.bool_]
    joins: NDArray[np.int8]

    def __post_init__(self) -> None:
        if not self.steps.shape == self.sends.shape == self.joins.shape:
            raise ValueError(
                f"steps, sends and joins must share one shape [replica, stage] (got "
                f"{self.steps.shape}, {self.sends.shape}, {self.joins.shape})"
            )

    def key(self) -> str:
        """Hex digest that is equal exactly when two directives train the same."""
        digest = hashlib.sha256(f"{self.index} {self.steps.shape}".encode())
        digest.update(self.steps.astype("<i4").tobytes())
        digest.update(self.sends.astype("u1").tobytes())
        digest.update(self.joins.astype("i1").tobytes())
        return digest.hexdigest()
