"""A Llama-style decoder cut into pipeline stages, run through the live ones.

Pre-norm RMSNorm, RoPE, causal attention, SwiGLU, no biases, untied head. Dimensions: batch,
time (seq), d (width), heads x head width = d, ffn, vocab.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from zlib import crc32

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.boundary import Codec
from trainer.config import Model
from trainer.randomness import Purpose, generator
from trainer.sizes import Shape, shapes_of

NORM_EPS = 1e-5
ROPE_BASE = 10_000.0
INIT_STD = 0.02

Hop = tuple[int, int]
Write = Callable[[Tensor], Tensor]


class Layer(nn.Module):
    """One decoder block: attention and feed-forward, each added to the residual stream.

    width: k where what the block writes is bound to the span of a basis, else None.
    """

    def __init__(self, model: Model, width: int | None) -> None:
        super().__init__()
        d, ffn = model.d, model.ffn
        self.heads = model.heads
        self.attn_norm = nn.Parameter(torch.empty(d))
        self.w_qkv = nn.Parameter(torch.empty(3 * d, d))
        self.w_o = nn.Parameter(torch.empty(width or d, d))
        self.ffn_norm = nn.Parameter(torch.empty(d))
        self.w_gate = nn.Parameter(torch.empty(ffn, d))
        self.w_up = nn.Parameter(torch.empty(ffn, d))
        self.w_down = nn.Parameter(torch.empty(width or d, ffn))

    def forward(self, x: Tensor, rope: Tensor, batch: int, write: Write) -> Tensor:
        """x: [batch x time, d], which saves a reshape around each product; rope: `rope_table`;
        write: from the outputs of w_o and w_down to what is added to x."""
        x = x + write(self._attention(_norm(x, self.attn_norm), rope, batch))
        return x + write(self._feed_forward(_norm(x, self.ffn_norm)))

    def _attention(self, x: Tensor, rope: Tensor, batch: int) -> Tensor:
        qkv = F.linear(x, self.w_qkv).view(batch, -1, 3, self.heads, x.shape[-1] // self.heads)
        cos, sin = rope[:, : qkv.shape[1]]
        turned = torch.addcmul(qkv * cos, qkv.roll(qkv.shape[-1] // 2, -1), sin)
        q, k, v = turned.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(mixed.transpose(1, 2).reshape(x.shape), self.w_o)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return F.linear(F.silu(F.linear(x, self.w_gate)) * F.linear(x, self.w_up), self.w_down)


class Stage(nn.Module):
    """Contiguous layers of the model; the first stage embeds, the last has norm and head.

    basis: float32[d, k] in whose span the stage writes; None: anywhere.
    """

    def __init__(
        self,
        model: Model,
        numbers: Sequence[int],
        first: bool,
        last: bool,
        basis: Tensor | None = None,
    ) -> None:
        super().__init__()
        width = None if basis is None else basis.shape[1]
        columns = width or model.d
        self.embed = nn.Parameter(torch.empty(model.vocab, columns)) if first else None
        self.layers = nn.ModuleDict({str(i): Layer(model, width) for i in numbers})
        self.norm = nn.Parameter(torch.empty(model.d)) if last else None
        self.head = nn.Parameter(torch.empty(model.vocab, model.d)) if last else None
        self.rope: Tensor
        self.register_buffer("rope", rope_table(model), persistent=False)
        self.basis: Tensor | None
        self.register_buffer("basis", basis, persistent=False)

    def forward(self, x: Tensor, x0: Tensor | None = None, gain: float = 1.0) -> Tensor:
        """x: [batch, time, d], in the first stage token ids [batch, time].

        x0: the fixed embedding [batch, time, d], which only the first stage adds.
        gain: factor on what the blocks write.

        Returns [batch, time, d], out of the last stage logits [batch, time, vocab].
        """
        batch, time = x.shape[:2]
        x = x.flatten(0, 1)
        if self.embed is not None:
            x = self._expand(F.embedding(x, self.embed))
            x = x if x0 is None else x + x0.flatten(0, 1)
        write = self._expand if gain == 1.0 else partial(self._expand, gain=gain)
        for layer in self.layers.values():
            x = layer(x, self.rope, batch, write)
        if self.norm is not None and self.head is not None:
            x = F.linear(_norm(x, self.norm), self.head)
        return x.view(batch, time, -1)

    def _expand(self, written: Tensor, gain: float = 1.0) -> Tensor:
        """From a stage's outputs, [.., k] in its basis, to the residual stream, [.., d]."""
        written = written if gain == 1.0 else written * gain
        return written if self.basis is None else F.linear(written, self.basis)


class Pipeline(nn.Module):
    """All stages of one copy of the model, each stage's parameters in one flat vector.

    flat: float32[parameters of the stage] per stage; the named parameters are views of it, in
        the order of `sizes.tensor_shapes`.
    free: the shapes that the tensors would have if no basis bound them.
    """

    def __init__(self, model: Model, stages: int, codec: Codec) -> None:
        super().__init__()
        residual = codec.residual
        self.codec = codec
        self.shapes = shapes_of(model, residual.widths)
        self.free = shapes_of(model, (None,) * stages)
        cut = [_layer_numbers(stage) for stage in self.shapes]
        self._layers = [len(numbers) for numbers in cut]
        self.stages = nn.ModuleList(
            Stage(model, numbers, s == 0, s == stages - 1, residual.bases[s])
            for s, numbers in enumerate(cut)
        )
        self.flat = [
            _flatten(stage, shapes) for stage, shapes in zip(self.stages, self.shapes, strict=True)
        ]

    def forward(
        self, tokens: Tensor, live: Sequence[int], crossed: Counter[Hop] | None = None
    ) -> Tensor:
        """Logits [batch, time, vocab] of token ids [batch, time] through the live stages.

        A skipped stage passes on what it receives, in the forward and the backward pass.

        live: stages in order, both ends among them.
        crossed: gains the tokens that went over each hop (from stage, to stage).
        """
        x0, gain = self.codec.residual.x0(tokens), self._gain(live)
        x: Tensor = self.stages[live[0]](tokens, x0, gain)
        for here, there in pairwise(live):
            c = self.codec.encode(x, x0, here)
            for skipped in range(here + 1, there):
                c = self.codec.bypass(c, skipped - 1, skipped)
            if crossed is not None:
                crossed[here, there] += c.shape[0] * c.shape[1]
            x = self.stages[there](self.codec.decode(c, x0, there - 1), None, gain)
        return x

    def _gain(self, live: Sequence[int]) -> float:
        """layers / live layers under `rescale_survivors`, so that about as much is written as by
        the whole model; 1 without it, or while all stages are live."""
        if not self.codec.residual.rescale:
            return 1.0
        return sum(self._layers) / sum(self._layers[s] for s in live)

    def loss(
        self, sequences: Tensor, live: Sequence[int], crossed: Counter[Hop] | None = None
    ) -> Tensor:
        """Mean nats per predicted token of sequences, int64[batch, time + 1]."""
        return mean_nats(self(sequences[:, :-1], live, crossed), sequences)

    def named(self, stage: int) -> dict[str, nn.Parameter]:
        """The parameters of a stage by name, in the order of its flat vector."""
        tensors = dict(self.stages[stage].named_parameters())
        return {name: tensors[name] for name in self.shapes[stage]}


def mean_nats(logits: Tensor, sequences: Tensor) -> Tensor:
    """Cross-entropy of logits [batch, time, vocab] with what follows, int64[batch, time + 1]."""
    return F.cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten())


@torch.no_grad()
def initialise(pipeline: Pipeline, seed: int, layers: int, jitter: float = 0.0) -> None:
    """Draw the initial weights: std 0.02, output matrices scaled by 1/sqrt(2 x layers), norms 1.

    jitter: every weight drawn is multiplied by 1 + jitter x N(0, 1), from a stream of its own.

    Each tensor has its own stream, keyed by its name, so the model that a seed stands for is the
    same however it is cut into stages. Tensors that a basis binds are the first k outputs of
    those that are free.
    """
    for stage in range(len(pipeline.stages)):
        for name, tensor in pipeline.named(stage).items():
            if tensor.ndim == 1:
                tensor.fill_(1.0)
                continue
            writes_residual = name.endswith(("w_o", "w_down"))
            std = INIT_STD / math.sqrt(2 * layers) if writes_residual else INIT_STD
            key, shape = crc32(name.encode()), pipeline.free[stage][name]
            drawn = generator(seed, Purpose.INIT, key).standard_normal(shape, dtype=np.float32)
            if jitter:
                noise = generator(seed, Purpose.JITTER, key).standard_normal(shape)
                drawn = (drawn * (1 + jitter * noise)).astype(np.float32)
            rows, columns = tensor.shape
            tensor.copy_(torch.from_numpy(drawn[:rows, :columns]).mul(std))


def rope_table(model: Model) -> Tensor:
    """Cosines and signed sines that turn queries and keys: float32[2, time, 3, 1, head width].

    The second half of a head is paired with the first. Values (row 2 of the three) are turned by
    nothing, which is cheaper than taking them apart from queries and keys.
    """
    half = model.d // model.heads // 2
    frequency = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(model.seq, dtype=torch.float64), frequency)
    cos = torch.cat([angle.cos(), angle.cos()], -1)
    sin = torch.cat([-angle.sin(), angle.sin()], -1)
    table = torch.stack(
        [
            torch.stack([cos, cos, torch.ones_like(cos)], 1),
            torch.stack([sin, sin, torch.zeros_like(sin)], 1),
        ]
    )
    return table.unsqueeze(-2).float()


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, NORM_EPS)


def _layer_numbers(shapes: dict[str, Shape]) -> list[int]:
    """The layers whose tensors a stage holds."""
    return sorted({int(name.split(".")[1]) for name in shapes if name.startswith("layers.")})


def _flatten(stage: nn.Module, shapes: dict[str, Shape]) -> Tensor:
    """Move a stage's parameters into one new vector of which they become views."""
    tensors = dict(stage.named_parameters())
    if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != shapes:
        raise AssertionError("sizes.tensor_shapes and the stage's tensors differ")
    flat = torch.empty(sum(tensor.numel() for tensor in tensors.values()))
    at = 0
    for name, shape in shapes.items():
        count = math.prod(shape)
        tensors[name].data = flat[at : at + count].view(shape)
        at += count
    return flat
