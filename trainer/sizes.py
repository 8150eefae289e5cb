"""Parameters, kept values, bytes and FLOPs per stage, by arithmetic. Torch-free.

Tested against the real tensors and against the published figures (arXiv 2508.15706). Every
tuple is `[stage]`; bytes are plain bytes, FLOPs are floating-point operations (a multiply-add
is two).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.config import Boundary, DiLoCo, Method, Model, SparseLoCo

BLOCK = 64
"""Matrices are cut into blocks of at most BLOCK x BLOCK values."""
RUN = BLOCK * BLOCK
"""Vectors are cut into runs of at most RUN values."""
FP32_BYTES = 4
BF16_BYTES = 2
TABLE_BYTES = 5 * FP32_BYTES
"""What a 2-bit tensor carries beside its codes: the mean and one value per code."""
UINT16_ENTRIES = 1 << 16
"""Up to this many vocabulary entries a token id travels in two bytes, above in four."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """All that the clock and the bill need to know of a model cut into stages."""

    layers: tuple[int, ...]
    parameters: tuple[int, ...]
    kept_values: tuple[int, ...]
    upload_bytes: tuple[int, ...]
    restore_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]
    forward_flops_per_token: tuple[int, ...]
    backward_flops_per_token: tuple[int, ...]


def sizes(model: Model, stages: int, method: Method) -> Sizes:
    """Everything at once. Raises ValueError when there are fewer layers than stages."""
    forward = forward_flops_per_token(model, stages, method.boundary)
    return Sizes(
        layers=layers_per_stage(model.layers, stages),
        parameters=parameters(model, stages, method.boundary),
        kept_values=kept_values(model, stages, method),
        upload_bytes=upload_bytes(model, stages, method),
        restore_bytes=restore_bytes(model, stages, method),
        state_bytes=state_bytes(model, stages, method),
        forward_flops_per_token=forward,
        backward_flops_per_token=tuple(2 * flops for flops in forward),
    )


def layers_per_stage(layers: int, stages: int) -> tuple[int, ...]:
    """Decoder layers of each stage; the last stages take the extra ones (9 over 4: 2/2/2/3)."""
    if stages < 1:
        raise ValueError(f"a model needs at least one stage (got {stages})")
    if layers < stages:
        raise ValueError(
            f"{layers} layers cannot fill {stages} stages: "
            f"give the model at least {stages} layers or cut it into at most {layers} stages"
        )
    base, extra = divmod(layers, stages)
    return tuple(base + (stage >= stages - extra) for stage in range(stages))


def write_widths(model: Model, stages: int, boundary: Boundary) -> tuple[int | None, ...]:
    """Dimensions that each stage's writes to the residual stream span; None: all d, unconstrained.

    `constrained` and `shared` bind every stage to one subspace, `independent` each stage to that
    of its outgoing boundary, which the last stage does not have.
    """
    k = boundary.width(model.d)
    if boundary.codec == "none":
        return (None,) * stages
    if boundary.codec == "independent":
        return (*(k,) * (stages - 1), None)
    return (k,) * stages


def tensor_shapes(model: Model, stages: int, boundary: Boundary) -> tuple[dict[str, Shape], ...]:
    """Name and shape of every tensor of each stage, in the order of its flat vector."""
    return shapes_of(model, write_widths(model, stages, boundary))


def shapes_of(model: Model, widths: Sequence[int | None]) -> tuple[dict[str, Shape], ...]:
    """The same, from what `write_widths` gives.

    Layers are numbered through the whole model, so a name does not depend on the cut. The query,
    key and value matrices are one tensor. What writes to the residual stream (embedding, w_o,
    w_down) has k instead of d outputs where the stage is bound to a subspace.
    """
    d, ffn, vocab = model.d, model.ffn, model.vocab
    shapes: list[dict[str, Shape]] = []
    first = 0
    for count, width in zip(layers_per_stage(model.layers, len(widths)), widths, strict=True):
        layer = {
            "attn_norm": (d,),
            "w_qkv": (d + 2 * model.kv_width, d),
            "w_o": (width or d, d),
            "ffn_norm": (d,),
            "w_gate": (ffn, d),
            "w_up": (ffn, d),
            "w_down": (width or d, ffn),
        }
        numbers = range(first, first + count)
        shapes.append(
            {f"layers.{i}.{name}": shape for i in numbers for name, shape in layer.items()}
        )
        first += count
    shapes[0] = {"embed": (vocab, widths[0] or d), **shapes[0]}
    shapes[-1] |= {"norm": (d,), "head": (vocab, d)}
    return tuple(shapes)


def parameters(model: Model, stages: int, boundary: Boundary) -> tuple[int, ...]:
    """Trained values of each stage: the first holds the embedding, the last norm and head."""
    return tuple(
        sum(math.prod(shape) for shape in stage.values())
        for stage in tensor_shapes(model, stages, boundary)
    )


def chunks(shape: Shape) -> list[tuple[int, int]]:
    """The chunks of a tensor as (chunk length, how many), edge chunks last.

    A matrix is cut into blocks of min(64, rows) x min(64, columns), a vector into runs of at
    most 4,096; what is left at an edge is a smaller chunk.
    """
    if len(shape) == 1:
        return _pieces(shape[0], RUN)
    rows, columns = shape
    return [
        (height * width, down * across)
        for height, down in _pieces(rows, BLOCK)
        for width, across in _pieces(columns, BLOCK)
    ]


def _pieces(length: int, most: int) -> list[tuple[int, int]]:
    """A length cut into pieces of `most` and a rest, as (piece length, how many)."""
    whole, rest = divmod(length, most)
    return ([(most, whole)] if whole else []) + ([(rest, 1)] if rest else [])


def kept_of_chunk(length: int, density: float) -> int:
    """Values that top-k keeps of a chunk: k = max(1, round(density x length))."""
    return max(1, round(density * length))


def _kept_of_tensor(shape: Shape, density: float) -> int:
    return sum(count * kept_of_chunk(length, density) for length, count in chunks(shape))


def kept_values(model: Model, stages: int, method: Method) -> tuple[int, ...]:
    """Values in one upload of each stage; a dense method sends them all."""
    outer = method.outer
    if not isinstance(outer, SparseLoCo):
        return parameters(model, stages, method.boundary)
    return tuple(
        sum(_kept_of_tensor(shape, outer.density) for shape in stage.values())
        for stage in tensor_shapes(model, stages, method.boundary)
    )


def upload_bytes(model: Model, stages: int, method: Method) -> tuple[int, ...]:
    """Bytes of one upload of each stage, every tensor rounded up to whole bytes.

    A kept value costs ceil(log2 chunk length) bits of index, edge chunks as wide as whole ones,
    plus `bits` of value; a 2-bit tensor carries 5 floats more. Dense methods send fp32.
    """
    outer = method.outer
    if not isinstance(outer, SparseLoCo):
        return _fp32(parameters(model, stages, method.boundary), 1)
    return tuple(
        sum(_tensor_bytes(shape, outer) for shape in stage.values())
        for stage in tensor_shapes(model, stages, method.boundary)
    )


def _tensor_bytes(shape: Shape, outer: SparseLoCo) -> int:
    longest = max(length for length, _ in chunks(shape))
    index_bits = (longest - 1).bit_length()
    bits = _kept_of_tensor(shape, outer.density) * (index_bits + outer.bits)
    return math.ceil(bits / 8) + (TABLE_BYTES if outer.bits == 2 else 0)


def restore_bytes(model: Model, stages: int, method: Method) -> tuple[int, ...]:
    """Bytes that a joining slot loads, fp32: the anchor, under DiLoCo the outer momentum too.

    The fixed table and the projections of a codec are drawn from the seed, so nobody sends them.
    """
    copies = 2 if isinstance(method.outer, DiLoCo) else 1
    return _fp32(parameters(model, stages, method.boundary), copies)


def state_bytes(model: Model, stages: int, method: Method) -> tuple[int, ...]:
    """Bytes of a slot's whole state, fp32: parameters, two Adam moments, and what the outer method
    remembers: SparseLoCo's error feedback, DiLoCo's momentum, of averaging nothing."""
    copies = 4 if isinstance(method.outer, SparseLoCo | DiLoCo) else 3
    return _fp32(parameters(model, stages, method.boundary), copies)


def _fp32(counts: tuple[int, ...], copies: int) -> tuple[int, ...]:
    return tuple(copies * FP32_BYTES * count for count in counts)


def forward_flops_per_token(model: Model, stages: int, boundary: Boundary) -> tuple[int, ...]:
    """Forward FLOPs per token: 2 per matrix value plus attention; backward is twice as much.

    Attention is causal, so a token looks at seq / 2 others on average: 2 x d x seq for scores and
    mix together. Looking up the embedding, norms and activations count nothing. In a subspace
    every write is expanded from k to d values, and a compressed boundary projects once on either
    side: 2 x k x d each. What a bypass costs, k x k, is left out.
    """
    attention = 2 * model.d * model.seq
    widths = write_widths(model, stages, boundary)
    crossing = 2 * model.d * boundary.width(model.d) if boundary.cuts else 0
    flops = []
    for s, (layers, shapes) in enumerate(
        zip(layers_per_stage(model.layers, stages), shapes_of(model, widths), strict=True)
    ):
        matrices = sum(
            math.prod(shape)
            for name, shape in shapes.items()
            if len(shape) == 2 and name != "embed"
        )
        writes = 2 * layers + (s == 0)
        expanded = 2 * model.d * (widths[s] or 0) * writes
        ends = (s > 0) + (s < stages - 1)
        flops.append(2 * matrices + layers * attention + expanded + ends * crossing)
    return tuple(flops)


def boundary_bytes_per_token(
    model: Model, boundary: Boundary, replica: int | None = None
) -> tuple[int, int]:
    """Bytes that a token sends over a hop, forward and backward, in bf16.

    d values; where the codec compresses k, and forward the token's id too, by which the receiver
    finds the fixed embedding. replica: whose hop, where only some compress; None: one that does.
    """
    if not boundary.cuts or not (replica is None or boundary.compresses(replica)):
        return BF16_BYTES * model.d, BF16_BYTES * model.d
    values = BF16_BYTES * boundary.width(model.d)
    return values + (2 if model.vocab <= UINT16_ENTRIES else 4), values
