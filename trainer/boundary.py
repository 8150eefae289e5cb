"""How activations cross from one live stage to the next, and what that asks of the weights.

Boundary b lies between stages b and b + 1. What one stage sends to the next live one is encoded
at the sender's boundary, bypassed once per skipped stage, and decoded at the receiver's.
Gradients come back through the same functions. Source: arXiv 2506.01260 and 2601.02360.

Dimensions: batch, time, d (width of the residual stream), k = ratio x d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.config import Boundary, Model
from trainer.randomness import Purpose, generator
from trainer.sizes import boundary_bytes_per_token


@dataclass(frozen=True, eq=False)
class Residual:
    """What is fixed of the residual stream: drawn from the seed, never trained, never sent.

    bases: per stage, U float32[d, k] with orthonormal columns, in whose span all that the stage
        writes lies; None: it writes anywhere.
    table: float32[vocab, d], the embedding that every stage holds; None: there is none.
    rescale: whether the blocks of live stages write more while stages are skipped.
    """

    bases: tuple[Tensor | None, ...]
    table: Tensor | None = None
    rescale: bool = False

    def x0(self, tokens: Tensor) -> Tensor | None:
        """The fixed embedding of token ids [batch, time]: [batch, time, d]."""
        return None if self.table is None else F.embedding(tokens, self.table)

    @property
    def widths(self) -> tuple[int | None, ...]:
        """k of each stage, as `sizes.write_widths` tells it."""
        return tuple(None if basis is None else basis.shape[1] for basis in self.bases)


class Codec(Protocol):
    """x and the decoded value are [batch, time, d]; c is what travels, [batch, time, d or k].

    x0 is the fixed token embedding that every stage holds, [batch, time, d]; None where there is
    none.
    """

    @property
    def residual(self) -> Residual:
        """What the weights are bound to, so that the codec may work as it does."""

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        """What leaves the stage before `boundary`."""

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        """What enters the stage after `boundary`."""

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        """What boundary `after` carries when the stage between it and `before` is skipped."""

    def bytes(self, tokens: int) -> tuple[int, int]:
        """Bytes of so many tokens over one hop, forward and backward."""


@dataclass(frozen=True, eq=False)
class Uncompressed:
    """All d values travel, in bf16 on the bill and exactly in the arithmetic.

    Codecs `none` and `constrained`, and the replicas that do not compress under the other two.
    """

    residual: Residual
    bytes_per_token: tuple[int, int]

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return x

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return c

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        return c

    def bytes(self, tokens: int) -> tuple[int, int]:
        forward, backward = self.bytes_per_token
        return tokens * forward, tokens * backward


@dataclass(frozen=True, eq=False)
class Projected:
    """c = (x - x0) U forward, gradient x U backward; the receiver reads c U^T + x0.

    Codec `shared` has one U at all boundaries, in whose span all stages write: nothing is lost,
    and a bypass passes c on. Under `independent` each boundary has its own, so of what earlier
    stages wrote about k / d of the energy survives each further boundary, skipped stage or not.

    bases: U float32[d, k] per boundary.
    """

    residual: Residual
    bytes_per_token: tuple[int, int]
    bases: tuple[Tensor, ...]

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        return F.linear(x if x0 is None else x - x0, self.bases[boundary].T)

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        x = F.linear(c, self.bases[boundary])
        return x if x0 is None else x + x0

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        """Decode, then encode; the fixed embedding cancels."""
        u, v = self.bases[before], self.bases[after]
        return c if u is v else F.linear(c, v.T @ u)

    def bytes(self, tokens: int) -> tuple[int, int]:
        forward, backward = self.bytes_per_token
        return tokens * forward, tokens * backward


def codec(
    model: Model, boundary: Boundary, stages: int, seed: int, *, rescale: bool = False
) -> Codec:
    """The codec a method asks for, and the weights it needs.

    Equal arguments give equal tensors in every process. rescale: `train.rescale_survivors`.
    """
    if boundary.codec == "none":
        return _uncompressed(model, Residual((None,) * stages, rescale=rescale))
    k, own = boundary.width(model.d), boundary.codec == "independent"
    drawn = [basis(model.d, k, seed, number) for number in range(stages - 1 if own else 1)]
    bases: tuple[Tensor | None, ...] = (*drawn, None) if own else tuple(drawn * stages)
    residual = Residual(bases, fixed_table(model, seed), rescale)
    if not boundary.cuts:
        return _uncompressed(model, residual)
    hops = tuple(drawn if own else drawn * (stages - 1))
    return Projected(residual, boundary_bytes_per_token(model, boundary), hops)


def of_replica(compressing: Codec, model: Model, boundary: Boundary, replica: int) -> Codec:
    """The codec of one replica: its weights are bound like all others' (they are averaged), but
    where it does not compress, all d values travel."""
    if boundary.compresses(replica) or not boundary.cuts:
        return compressing
    return _uncompressed(model, compressing.residual)


def _uncompressed(model: Model, residual: Residual) -> Uncompressed:
    return Uncompressed(residual, boundary_bytes_per_token(model, Boundary()))


def basis(d: int, k: int, seed: int, boundary: int) -> Tensor:
    """U of a boundary: orthonormal columns by QR of a Gaussian, float32[d, k].

    Narrower ones are the first columns of wider ones, so ratios are compared on nested subspaces.
    """
    gaussian = generator(seed, Purpose.BASIS, boundary).standard_normal((d, d))
    q, r = np.linalg.qr(gaussian[:, :k])
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)  # which sign LAPACK gives is its own affair
    return torch.tensor(q.astype(np.float32))


def fixed_table(model: Model, seed: int) -> Tensor:
    """The embedding that nobody trains: N(0, 1), float32[vocab, d]."""
    stream = generator(seed, Purpose.TABLE)
    return torch.tensor(stream.standard_normal((model.vocab, model.d), dtype=np.float32))
