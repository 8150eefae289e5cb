"""How activations cross from one live stage to the next.

Boundary b lies between stages b and b + 1. What one stage sends to the next live one is encoded
at the sender's boundary, bypassed once per skipped stage, and decoded at the receiver's.
Gradients come back through the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from trainer.config import Boundary, Model
from trainer.sizes import boundary_bytes_per_token


class Codec(Protocol):
    """x and the decoded value are [batch, time, d]; c is what travels, [batch, time, any].

    x0 is the fixed token embedding that every stage holds, [batch, time, d]; None where a codec
    has none.
    """

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        """What leaves the stage before `boundary`."""

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        """What enters the stage after `boundary`."""

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        """What boundary `after` carries when the stage between it and `before` is skipped."""

    def bytes(self, tokens: int) -> int:
        """Bytes of so many tokens over one hop in one direction."""


@dataclass(frozen=True)
class Uncompressed:
    """Codec none: all d values travel, in bf16 on the bill and exactly in the arithmetic."""

    bytes_per_token: int

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return x

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return c

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        return c

    def bytes(self, tokens: int) -> int:
        return tokens * self.bytes_per_token


def codec(model: Model, boundary: Boundary) -> Codec:
    """The codec a method asks for."""
    return Uncompressed(boundary_bytes_per_token(model, boundary))
