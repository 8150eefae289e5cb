"""Parameters, kept values, bytes and FLOPs per stage, by arithmetic. Torch-free.

Tested against the real tensors and against the published figures (arXiv 2508.15706). Every
tuple is `[stage]`; bytes are plain bytes, FLOPs are floating-point operations (a multiply-add
is two).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.config import Average, Boundary, Method, Model, Outer, SparseLoCo

BLOCK = 64
"""Matrices are cut into blocks of at most BLOCK x BLOCK values."""
RUN = BLOCK * BLOCK
"""Vectors are cut into runs of at most RUN values."""
FP32_BYTES = 4
BF16_BYTES = 2
TABLE_BYTES = 5 * FP32_BYTES
"""What a 2-bit tensor carries beside its codes: the mean and one value per code."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """All that the clock and the bill need to know of a model cut into stages."""

    layers: tuple[int, ...]
    parameters: tuple[int, ...]
    kept_values: tuple[int, ...]
    upload_bytes: tuple[int, ...]
    weight_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]
    forward_flops_per_token: tuple[int, ...]
    backward_flops_per_token: tuple[int, ...]
    boundary_bytes_per_token: int


def sizes(model: Model, stages: int, method: Method) -> Sizes:
    """Everything at once. Raises ValueError when there are fewer layers than stages."""
    forward = forward_flops_per_token(model, stages)
    return Sizes(
        layers=layers_per_stage(model.layers, stages),
        parameters=parameters(model, stages),
        kept_values=kept_values(model, stages, method.outer),
        upload_bytes=upload_bytes(model, stages, method.outer),
        weight_bytes=weight_bytes(model, stages),
        state_bytes=state_bytes(model, stages, method.outer),
        forward_flops_per_token=forward,
        backward_flops_per_token=tuple(2 * flops for flops in forward),
        boundary_bytes_per_token=boundary_bytes_per_token(model, method.boundary),
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


def tensor_shapes(model: Model, stages: int) -> tuple[dict[str, Shape], ...]:
    """Name and shape of every tensor of each stage, in the order of its flat vector.

    Layers are numbered through the whole model, so a name does not depend on the cut. The query,
    key and value matrices are one tensor.
    """
    d, ffn, vocab = model.d, model.ffn, model.vocab
    layer = {
        "attn_norm": (d,),
        "w_qkv": (3 * d, d),
        "w_o": (d, d),
        "ffn_norm": (d,),
        "w_gate": (ffn, d),
        "w_up": (ffn, d),
        "w_down": (d, ffn),
    }
    shapes: list[dict[str, Shape]] = []
    first = 0
    for count in layers_per_stage(model.layers, stages):
        numbers = range(first, first + count)
        shapes.append(
            {f"layers.{i}.{name}": shape for i in numbers for name, shape in layer.items()}
        )
        first += count
    shapes[0] = {"embed": (vocab, d), **shapes[0]}
    shapes[-1] |= {"norm": (d,), "head": (vocab, d)}
    return tuple(shapes)


def parameters(model: Model, stages: int) -> tuple[int, ...]:
    """Trained values of each stage: the first holds the embedding, the last norm and head."""
    return tuple(
        sum(math.prod(shape) for shape in stage.values()) for stage in tensor_shapes(model, stages)
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


def kept_values(model: Model, stages: int, outer: Outer) -> tuple[int, ...]:
    """Values in one upload of each stage; a dense method sends them all."""
    if isinstance(outer, Average):
        return parameters(model, stages)
    return tuple(
        sum(_kept_of_tensor(shape, outer.density) for shape in stage.values())
        for stage in tensor_shapes(model, stages)
    )


def upload_bytes(model: Model, stages: int, outer: Outer) -> tuple[int, ...]:
    """Bytes of one upload of each stage, every tensor rounded up to whole bytes.

    A kept value costs ceil(log2 chunk length) bits of index, edge chunks as wide as whole ones,
    plus `bits` of value; a 2-bit tensor carries 5 floats more.
    """
    if isinstance(outer, Average):
        return weight_bytes(model, stages)
    return tuple(
        sum(_tensor_bytes(shape, outer) for shape in stage.values())
        for stage in tensor_shapes(model, stages)
    )


def _tensor_bytes(shape: Shape, outer: SparseLoCo) -> int:
    longest = max(length for length, _ in chunks(shape))
    index_bits = (longest - 1).bit_length()
    bits = _kept_of_tensor(shape, outer.density) * (index_bits + outer.bits)
    return math.ceil(bits / 8) + (TABLE_BYTES if outer.bits == 2 else 0)


def weight_bytes(model: Model, stages: int) -> tuple[int, ...]:
    """Bytes of each stage's anchor in fp32: what a joining slot loads."""
    return tuple(FP32_BYTES * count for count in parameters(model, stages))


def state_bytes(model: Model, stages: int, outer: Outer) -> tuple[int, ...]:
    """Bytes of a slot's whole state in fp32: parameters, two Adam moments, error feedback.

    Dense averaging holds nothing back, so it has no error feedback.
    """
    copies = 3 if isinstance(outer, Average) else 4
    return tuple(copies * FP32_BYTES * count for count in parameters(model, stages))


def forward_flops_per_token(model: Model, stages: int) -> tuple[int, ...]:
    """Forward FLOPs per token: 2 per matrix value plus attention; backward is twice as much.

    Attention is causal, so a token looks at seq / 2 others on average: 2 x d x seq for scores and
    mix together. Looking up the embedding, norms and activations count nothing.
    """
    attention = 2 * model.d * model.seq
    flops = []
    for layers, stage in zip(
        layers_per_stage(model.layers, stages), tensor_shapes(model, stages), strict=True
    ):
        matrices = sum(
            math.prod(shape) for name, shape in stage.items() if len(shape) == 2 and name != "embed"
        )
        flops.append(2 * matrices + layers * attention)
    return tuple(flops)


def boundary_bytes_per_token(model: Model, boundary: Boundary) -> int:
    """Bytes that a token sends over a hop in one direction: d bf16 values under codec none."""
    assert boundary.codec == "none"
    return BF16_BYTES * model.d
