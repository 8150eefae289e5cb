"""Memory that a slot of the timed job takes on its device, by arithmetic. Torch-free.

What a stage keeps for the backward pass is counted tensor by tensor as for mixed precision with an
attention that does not keep its scores. Fragments, buffers of the libraries and of the links
come on top, some gigabytes that nobody can tell beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.config import Boundary, Model
from trainer.sizes import BF16_BYTES, FP32_BYTES, layers_per_stage, parameters

STATE_BYTES = 16
"""Of a parameter: weight and gradient in bf16, weight and two moments in fp32 (ZeRO, arXiv
1910.02054). The anchor and what SparseLoCo holds back are used once a round, and wait in the
memory of the host."""


def state_on_device_bytes(model: Model, stages: int, boundary: Boundary) -> tuple[int, ...]:
    """[S] bytes of weights, gradients and Adam's moments."""
    return tuple(STATE_BYTES * count for count in parameters(model, stages, boundary))


def activation_bytes_per_token(model: Model, stages: int) -> tuple[int, ...]:
    """[S] bytes that a stage keeps of a token between its forward and its backward pass.

    Of a layer in bf16: the inputs and the outputs of both norms, query, output of the attention
    (6 d), key and value, gate, up and their product (3 ffn). At the end the norm's input and
    output, and the logits in fp32.
    """
    layer = BF16_BYTES * (6 * model.d + 2 * model.kv_width + 3 * model.ffn)
    kept = [count * layer for count in layers_per_stage(model.layers, stages)]
    kept[-1] += BF16_BYTES * 2 * model.d + FP32_BYTES * model.vocab
    return tuple(kept)


def activation_bytes(
    model: Model, tokens: int, in_flight: Sequence[int], recompute: bool
) -> tuple[int, ...]:
    """[S] bytes of activations at the most.

    Args:
        tokens: of a micro-batch.
        in_flight: [S] micro-batches whose backward is to come.
        recompute: only the input of each is kept, and of one all that is computed again.
    """
    whole = activation_bytes_per_token(model, len(in_flight))
    if not recompute:
        return tuple(tokens * n * each for n, each in zip(in_flight, whole, strict=True))
    inputs = BF16_BYTES * model.d
    return tuple(tokens * (n * inputs + each) for n, each in zip(in_flight, whole, strict=True))
