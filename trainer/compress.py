"""What a pseudo-gradient becomes on the wire: chunked top-k and a 2-bit quantiser.

Works on the flat vector of a stage. Source: SparseLoCo, arXiv 2508.15706, and its public code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.sizes import BLOCK, RUN, Shape, kept_of_chunk

POSITION_BITS = (RUN - 1).bit_length()
CODES = 4
RANGE_SIGMAS = 6.0


@dataclass(frozen=True, eq=False)
class Encoded:
    """What travels of one stage, as the receiver reads it.

    index: int64[kept], places in the flat vector, each at most once.
    value: float32[kept], after quantisation.
    codes: int64[4], how often each 2-bit code occurs; zeros at full width.
    """

    index: Tensor
    value: Tensor
    codes: Tensor

    @property
    def kept(self) -> int:
        """How many values travel."""
        return self.index.numel()


@dataclass(frozen=True, eq=False)
class _Group:
    """All chunks of one length in a stage."""

    index: Tensor  # int32[chunk, place]: where each value of a chunk lies in the flat vector
    keep: int  # values kept of each chunk
    tensor: Tensor  # int64[kept]: the tensor that each kept value is of, chunk by chunk

    def chunks(self, vector: Tensor) -> Tensor:
        """What a flat vector holds in them, float32[chunk, place]."""
        return vector.index_select(0, self.index.view(-1)).view(self.index.shape)


class Compressor:
    """Top-k per chunk, then 2 bits or 32 per kept value; its tables are built once per stage.

    shapes: the stage's tensors in the order of its flat vector. The tables take 4 bytes a
    parameter and are shared by all replicas.
    """

    def __init__(self, shapes: Mapping[str, Shape], density: float, bits: int) -> None:
        self.bits = bits
        self.tensors = len(shapes)
        by_length: dict[int, list[tuple[Tensor, int]]] = {}
        at = 0
        for tensor, shape in enumerate(shapes.values()):
            count = math.prod(shape)
            places = torch.arange(at, at + count, dtype=torch.int32).view(shape)
            for blocks in chunk_places(places):
                by_length.setdefault(blocks.shape[1], []).append((blocks, tensor))
            at += count
        self._groups = [
            _group(blocks, kept_of_chunk(length, density)) for length, blocks in by_length.items()
        ]
        self._tensor = torch.cat([group.tensor for group in self._groups])

    def encode(self, vector: Tensor) -> Encoded:
        """What travels of a flat vector, float32[parameters of the stage]."""
        sizes = vector.abs()
        indices = [
            group.index.gather(1, largest(group.chunks(sizes), group.keep)).flatten()
            for group in self._groups
        ]
        index = torch.cat(indices).long()
        value = vector.index_select(0, index)
        if self.bits != 2:
            return Encoded(index, value, torch.zeros(CODES, dtype=torch.long))
        codes, mu, table = quantise(value, self._tensor, self.tensors)
        read = dequantise(codes, mu, table, self._tensor)
        return Encoded(index, read, codes.bincount(minlength=CODES))

    def clip_to_median(self, uploads: Sequence[Encoded]) -> list[Tensor]:
        """The values of uploads, each tensor scaled by min(1, median norm / own norm).

        The median of an even number of senders is the mean of the middle two. Returns
        float32[kept] per upload.
        """
        norms = torch.stack([self._norms(upload.value) for upload in uploads])
        median = norms.quantile(0.5, dim=0)
        scale = torch.where(norms > median, median / norms, 1.0).float()
        return [
            upload.value * of_tensor[self._tensor]
            for upload, of_tensor in zip(uploads, scale, strict=True)
        ]

    def _norms(self, value: Tensor) -> Tensor:
        """L2 norm of what an upload holds of each tensor, float64[tensor]."""
        squares = value.double().square()
        return squares.new_zeros(self.tensors).index_add_(0, self._tensor, squares).sqrt()


def _group(blocks: list[tuple[Tensor, int]], keep: int) -> _Group:
    return _Group(
        index=torch.cat([places for places, _ in blocks]),
        keep=keep,
        tensor=torch.cat([torch.full((len(places) * keep,), tensor) for places, tensor in blocks]),
    )


def chunk_places(places: Tensor) -> list[Tensor]:
    """A tensor cut into chunks: [chunk, place] for each length, as `sizes.chunks` counts them.

    places: integers of the tensor's shape, any numbering.
    """
    if places.ndim == 1:
        return [part.reshape(-1, size) for part, size in _pieces(places, RUN)]
    return [
        _blocks(columns.T, height, width)
        for rows, height in _pieces(places, BLOCK)
        for columns, width in _pieces(rows.T, BLOCK)
    ]


def _blocks(places: Tensor, height: int, width: int) -> Tensor:
    """A matrix of whole blocks, block by block: [block, height x width]."""
    down, across = places.shape[0] // height, places.shape[1] // width
    blocks = places.reshape(down, height, across, width).transpose(1, 2)
    return blocks.reshape(down * across, height * width)


def _pieces(places: Tensor, most: int) -> list[tuple[Tensor, int]]:
    """The part of the first dimension that whole pieces fill, and the rest, with piece sizes."""
    length = places.shape[0]
    whole = length - length % most
    parts = [(places[:whole], most)] if whole else []
    return parts + ([(places[whole:], length - whole)] if whole < length else [])


def largest(sizes: Tensor, keep: int) -> Tensor:
    """Positions of the `keep` largest magnitudes of each chunk, ascending: int64[chunk, keep].

    sizes: float32[chunk, place], finite magnitudes. Of equal ones the earlier place wins; without
    that the winner of a tie would be a property of the machine.
    """
    return _partitioned(sizes.numpy(), keep) if sizes.is_cpu else _top(sizes, keep)


def _partitioned(sizes: NDArray[np.float32], keep: int) -> Tensor:
    """`largest` on the CPU: numpy partitions with vector instructions."""
    count, length = sizes.shape
    least = np.partition(sizes, length - keep, axis=1)[:, length - keep, None]
    chosen = sizes >= least
    if np.count_nonzero(chosen) > count * keep:  # too many where several are as large as the least
        for row in np.flatnonzero(chosen.sum(axis=1) > keep):
            ties = np.flatnonzero(sizes[row] == least[row])
            above = np.count_nonzero(sizes[row] > least[row])
            chosen[row, ties[keep - above :]] = False
    places = np.flatnonzero(chosen).reshape(count, keep)
    return torch.from_numpy(places - np.arange(count)[:, None] * length)


def _top(sizes: Tensor, keep: int) -> Tensor:
    """`largest` elsewhere: the key is the magnitude's bits, which order like the number, then the
    place counted backwards."""
    length = sizes.shape[1]
    backwards = torch.arange(RUN - 1, RUN - 1 - length, -1, device=sizes.device)
    keys = sizes.view(torch.int32).to(torch.int64)
    keys.bitwise_left_shift_(POSITION_BITS).bitwise_or_(backwards)
    best = keys.topk(keep, dim=1, sorted=False).values.bitwise_and_(RUN - 1)
    return (RUN - 1 - best).sort(dim=1).values


def quantise(value: Tensor, tensor: Tensor, tensors: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two-bit codes of kept values, with mean and table of each tensor.

    mu, sigma over the tensor's kept values; step = 6 sigma / 4;
    code = clip(round((v - mu) / step + 2), 0, 3); the table holds the mean of v - mu per code, 0
    for a code that does not occur. Where all values are equal, step is 0 and every code is 2.

    value: float32[kept]; tensor: int64[kept], which tensor each value is of.
    Returns codes int64[kept], mu float32[tensor], table float32[tensor, 4].
    """
    wide = value.double()
    count = tensor.bincount(minlength=tensors)
    mu = _mean(wide, tensor, count)
    off = wide - mu.index_select(0, tensor)
    step = _mean(off.square(), tensor, count).sqrt() * (RANGE_SIGMAS / CODES)
    scaled = off / torch.where(step > 0, step, torch.inf).index_select(0, tensor)
    codes = scaled.add_(CODES // 2).round_().clamp_(0, CODES - 1).long()
    entry = tensor * CODES + codes
    table = _mean(off, entry, entry.bincount(minlength=tensors * CODES))
    return codes, mu.float(), table.view(tensors, CODES).float()


def dequantise(codes: Tensor, mu: Tensor, table: Tensor, tensor: Tensor) -> Tensor:
    """The values that the receiver reads: mu + table[code], float32[kept]."""
    entry = tensor * CODES + codes
    return mu.index_select(0, tensor) + table.view(-1).index_select(0, entry)


def _mean(value: Tensor, bucket: Tensor, count: Tensor) -> Tensor:
    """Mean of the values of each bucket, 0 where there are none: float64[buckets]."""
    total = value.new_zeros(len(count)).index_add_(0, bucket, value)
    return total / count.clamp(min=1)
