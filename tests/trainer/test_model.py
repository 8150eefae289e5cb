"""The staged model against a plain one written down here, formula by formula."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from trainer.boundary import Residual, codec
from trainer.config import Boundary, Model
from trainer.model import Pipeline, initialise

MODEL = Model(d=16, layers=5, heads=2, ffn=24, seq=7, vocab=50)
SEQUENCES = torch.randint(0, MODEL.vocab, (3, MODEL.seq + 1), generator=torch.manual_seed(0))


def pipeline(stages: int, seed: int = 0) -> Pipeline:
    made = Pipeline(MODEL, stages, codec(MODEL, Boundary(), stages, seed))
    initialise(made, seed, MODEL.layers)
    return made


def named(model: Pipeline) -> dict[str, Tensor]:
    return {n: p for s in range(len(model.stages)) for n, p in model.named(s).items()}


def plain_loss(weights: dict[str, Tensor], layers: list[int]) -> Tensor:
    """The same decoder through the given layers, in float64, one head at a time."""

    def norm(x: Tensor, w: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w

    def turn(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        out = torch.empty_like(x)
        for t in range(x.shape[-2]):
            for i in range(half):
                angle = t * 10_000 ** (-i / half)
                a, b = x[..., t, i], x[..., t, i + half]
                out[..., t, i] = a * math.cos(angle) - b * math.sin(angle)
                out[..., t, i + half] = a * math.sin(angle) + b * math.cos(angle)
        return out

    x = weights["embed"][SEQUENCES[:, :-1]]
    width = MODEL.d // MODEL.heads
    future = torch.ones(MODEL.seq, MODEL.seq).triu(1).bool()
    for i in layers:
        w = {n.split(".")[2]: t for n, t in weights.items() if n.startswith(f"layers.{i}.")}
        q, k, v = torch.split(norm(x, w["attn_norm"]) @ w["w_qkv"].T, MODEL.d, -1)
        heads = []
        for h in range(MODEL.heads):
            part = slice(h * width, (h + 1) * width)
            scores = turn(q[..., part]) @ turn(k[..., part]).transpose(1, 2) / math.sqrt(width)
            heads.append(scores.masked_fill(future, -math.inf).softmax(-1) @ v[..., part])
        x = x + torch.cat(heads, -1) @ w["w_o"].T
        y = norm(x, w["ffn_norm"])
        gate = y @ w["w_gate"].T
        x = x + (gate * gate.sigmoid() * (y @ w["w_up"].T)) @ w["w_down"].T
    log_p = (norm(x, weights["norm"]) @ weights["head"].T).log_softmax(-1)
    return -log_p.gather(-1, SEQUENCES[:, 1:, None]).mean()


@pytest.mark.parametrize(
    ("stages", "live", "layers"),
    [
        (1, [0], [0, 1, 2, 3, 4]),
        (4, [0, 1, 2, 3], [0, 1, 2, 3, 4]),
        (4, [0, 2, 3], [0, 2, 3, 4]),
        (4, [0, 3], [0, 3, 4]),
        (2, [0, 1], [0, 1, 2, 3, 4]),
    ],
)
def test_loss_and_gradients_are_those_of_the_plain_model_without_the_skipped_layers(
    stages: int, live: list[int], layers: list[int]
) -> None:
    model = pipeline(stages)
    loss = model.loss(SEQUENCES, live)
    loss.backward()  # type: ignore[no-untyped-call]
    weights = {n: p.detach().double().requires_grad_() for n, p in named(model).items()}
    expected = plain_loss(weights, layers)
    expected.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for name, parameter in named(model).items():
        like = weights[name].grad
        if like is None:
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None, name
            torch.testing.assert_close(parameter.grad.double(), like, rtol=1e-4, atol=1e-7)


def test_gradients_do_reach_every_live_tensor() -> None:
    model = pipeline(4)
    model.loss(SEQUENCES, [0, 1, 3]).backward()  # type: ignore[no-untyped-call]
    moved = {n for n, p in named(model).items() if p.grad is not None and p.grad.abs().max() > 0}
    assert moved == {n for n in named(model) if not n.startswith("layers.2.")}


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_initial_weights_do_not_depend_on_the_cut(stages: int) -> None:
    whole, cut = named(pipeline(1)), named(pipeline(stages))
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_initial_weights_depend_on_seed_and_name() -> None:
    first, second = named(pipeline(1)), named(pipeline(1, seed=1))
    assert not torch.equal(first["embed"], second["embed"])
    assert not torch.equal(first["layers.0.w_qkv"], first["layers.1.w_qkv"])
    assert not torch.equal(first["embed"], first["head"])


def test_output_matrices_start_smaller() -> None:
    wide = Model(d=128, layers=2, heads=2, ffn=256, seq=4, vocab=300)
    model = Pipeline(wide, 1, codec(wide, Boundary(), 1, 0))
    initialise(model, 0, wide.layers)
    for name, tensor in named(model).items():
        if tensor.ndim == 1:
            assert torch.equal(tensor, torch.ones_like(tensor)), name
        else:
            scale = 0.5 if name.endswith(("w_o", "w_down")) else 1.0  # 1 / sqrt(2 x 2 layers)
            assert tensor.std().item() == pytest.approx(0.02 * scale, rel=0.03), name


def test_flat_vectors_are_the_parameters() -> None:
    model = pipeline(3)
    for s, flat in enumerate(model.flat):
        joined = torch.cat([p.detach().flatten() for p in model.named(s).values()])
        assert torch.equal(flat, joined)
        flat.zero_()
        assert all(p.abs().max() == 0 for p in model.named(s).values())


@dataclass
class Noting:
    """A codec that notes what it is asked for and adds 1 on the way."""

    residual: Residual = field(default_factory=lambda: Residual((None,) * 5))
    calls: list[tuple[str, int, int]] = field(default_factory=list)

    def encode(self, x: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        self.calls.append(("encode", boundary, boundary))
        return x + 1

    def decode(self, c: Tensor, x0: Tensor | None, boundary: int) -> Tensor:
        self.calls.append(("decode", boundary, boundary))
        return c - 1

    def bypass(self, c: Tensor, before: int, after: int) -> Tensor:
        self.calls.append(("bypass", before, after))
        return c.clone()

    def bytes(self, tokens: int) -> tuple[int, int]:
        return tokens, tokens


def test_the_codec_works_at_every_hop_and_bypasses_once_per_skipped_stage() -> None:
    noting = Noting()
    model = Pipeline(MODEL, 5, noting)
    initialise(model, 0, MODEL.layers)
    loss = model.loss(SEQUENCES, [0, 1, 4])
    assert noting.calls == [
        ("encode", 0, 0),
        ("decode", 0, 0),
        ("encode", 1, 1),
        ("bypass", 1, 2),
        ("bypass", 2, 3),
        ("decode", 3, 3),
    ]
    assert loss.item() == pytest.approx(pipeline(5).loss(SEQUENCES, [0, 1, 4]).item(), rel=1e-5)


def test_tokens_are_counted_over_the_hops_they_take() -> None:
    crossed: Counter[tuple[int, int]] = Counter()
    model = pipeline(5)
    model.loss(SEQUENCES, [0, 1, 4], crossed)
    model.loss(SEQUENCES[:1], [0, 1, 2, 3, 4], crossed)
    t = MODEL.seq
    assert crossed == {(0, 1): 4 * t, (1, 4): 3 * t, (1, 2): t, (2, 3): t, (3, 4): t}


def test_jitter_changes_every_drawn_weight_a_little_and_nothing_else() -> None:
    plain, shaken = pipeline(2), pipeline(2)
    initialise(shaken, 0, MODEL.layers, jitter=1e-3)
    for name, weight in named(plain).items():
        moved = (named(shaken)[name] - weight) / weight
        if weight.ndim == 1:
            assert not moved.any()
        else:
            assert 0.8e-3 < moved.std() < 1.2e-3, name
