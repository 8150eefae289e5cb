"""Arithmetic against real tensors, torch's own FLOP counter and the published figures."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainer.boundary import codec
from trainer.compress import Compressor
from trainer.config import PRESETS, Average, Boundary, Method, Model, SparseLoCo
from trainer.model import Pipeline
from trainer.sizes import (
    boundary_bytes_per_token,
    chunks,
    forward_flops_per_token,
    kept_values,
    layers_per_stage,
    parameters,
    sizes,
    state_bytes,
    tensor_shapes,
    upload_bytes,
    weight_bytes,
)

ODD = Model(d=10, layers=5, heads=1, ffn=70, seq=6, vocab=131)
AVERAGE = Average(name="average")


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [(9, 4, (2, 2, 2, 3)), (4, 4, (1, 1, 1, 1)), (11, 4, (2, 3, 3, 3)), (7, 1, (7,))],
)
def test_the_last_stages_take_the_extra_layers(
    layers: int, stages: int, expected: tuple[int, ...]
) -> None:
    assert layers_per_stage(layers, stages) == expected


def test_fewer_layers_than_stages_is_an_error_with_a_cure() -> None:
    with pytest.raises(ValueError, match="3 layers cannot fill 4 stages: give the model at least"):
        layers_per_stage(3, 4)
    with pytest.raises(ValueError, match="at least one stage"):
        layers_per_stage(3, 0)


@pytest.mark.parametrize(("preset", "millions"), [("178m", 177.62), ("512m", 512.4)])
def test_presets_have_the_published_parameters(preset: str, millions: float) -> None:
    total = sum(parameters(PRESETS[preset], 4))
    assert total / 1e6 == pytest.approx(millions, abs=0.05 if preset == "512m" else 0.005)


@pytest.mark.parametrize(("keep", "megabytes"), [(64, 4.86), (128, 9.71)])
def test_178m_uploads_the_published_bytes(keep: int, megabytes: float) -> None:
    outer = SparseLoCo(density=keep / 4096, bits=2)
    assert sum(upload_bytes(PRESETS["178m"], 4, outer)) / 1e6 == pytest.approx(megabytes, abs=0.006)


def test_178m_dense_is_710_megabytes() -> None:
    total = sum(upload_bytes(PRESETS["178m"], 4, AVERAGE))
    assert total / 1e6 == pytest.approx(710, abs=1)
    assert total == sum(weight_bytes(PRESETS["178m"], 4))


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_shapes_and_parameters_are_those_of_the_real_tensors(stages: int) -> None:
    pipeline = Pipeline(ODD, stages, codec(ODD, Boundary()))
    for s, shapes in enumerate(tensor_shapes(ODD, stages)):
        real = {n: tuple(p.shape) for n, p in pipeline.stages[s].named_parameters()}
        assert real == shapes
        assert parameters(ODD, stages)[s] == sum(p.numel() for p in pipeline.stages[s].parameters())
        assert parameters(ODD, stages)[s] == pipeline.flat[s].numel()


@pytest.mark.parametrize("density", [1e-6, 0.03125, 0.3, 1.0])
@pytest.mark.parametrize("model", [ODD, PRESETS["tiny"].model_copy(update={"vocab": 300})])
def test_kept_values_are_those_of_a_real_upload(model: Model, density: float) -> None:
    outer = SparseLoCo(density=density)
    for s, shapes in enumerate(tensor_shapes(model, 3)):
        vector = torch.randn(sum(math.prod(shape) for shape in shapes.values()))
        kept = Compressor(shapes, density, bits=32).encode(vector).kept
        assert kept == kept_values(model, 3, outer)[s]
    assert kept_values(model, 3, AVERAGE) == parameters(model, 3)


def test_bytes_of_a_tensor_by_hand() -> None:
    # One layer, one stage, all norms of 10: 1 of 10 kept, 4 bits of index.
    # embed, head 131 x 10: blocks 64 x 10 (twice) and 3 x 10; keep 20 + 20 + 1 of 640, 640, 30.
    model = Model(d=10, layers=1, heads=1, ffn=70, seq=6, vocab=131)
    kept = {"embed": 41, "head": 41, "w_qkv": 300 // 32, "w_o": 3, "w_gate": 22, "w_up": 22}
    kept |= {"w_down": 22, "norms": 1}
    assert sum(kept_values(model, 1, SparseLoCo())) == sum(kept.values()) + 2
    bits = {name: count * (10 + 2) for name, count in kept.items()}  # 640 places: 10 bits
    bits |= {"w_qkv": 9 * (9 + 2), "w_o": 3 * (7 + 2), "norms": 4 + 2}  # 300, 100 and 10 places
    expected = sum(math.ceil(b / 8) + 20 for b in bits.values()) + 2 * (1 + 20)
    assert upload_bytes(model, 1, SparseLoCo(bits=2)) == (expected,)
    wide = upload_bytes(model, 1, SparseLoCo(bits=32))[0]
    assert wide == sum(
        math.ceil((b + 30 * kept[name]) / 8) for name, b in bits.items()
    ) + 2 * math.ceil(36 / 8)


def test_state_is_parameters_two_moments_and_error_feedback() -> None:
    count = parameters(ODD, 3)
    assert state_bytes(ODD, 3, SparseLoCo()) == tuple(16 * n for n in count)
    assert state_bytes(ODD, 3, AVERAGE) == tuple(12 * n for n in count)


@pytest.mark.parametrize("stages", [1, 3])
def test_flops_are_those_torch_counts(stages: int) -> None:
    """torch counts attention as if it were not causal, so twice of it must be too much by one."""
    pipeline = Pipeline(ODD, stages, codec(ODD, Boundary()))
    for flat in pipeline.flat:
        flat.fill_(0.01)
    tokens = torch.zeros(2, ODD.seq, dtype=torch.long)
    layers = layers_per_stage(ODD.layers, stages)
    x = tokens
    for s in range(stages):
        with FlopCounterMode(display=False) as counter:
            x = pipeline.stages[s](x)
        by_operator = counter.get_flop_counts()["Global"]
        products = sum(n for op, n in by_operator.items() if "attention" not in str(op))
        attention = layers[s] * 2 * ODD.d * ODD.seq
        assert products == tokens.numel() * (forward_flops_per_token(ODD, stages)[s] - attention)


def test_attention_flops_are_those_of_the_causal_half() -> None:
    """Scores and mix, 2 x d each per pair of tokens, over seq / 2 pairs a token."""
    longer = ODD.model_copy(update={"seq": 2 * ODD.seq})
    more = sum(forward_flops_per_token(longer, 2)) - sum(forward_flops_per_token(ODD, 2))
    assert more == ODD.layers * (2 * 2 * ODD.d) * ODD.seq / 2


def test_a_hop_costs_two_bytes_a_value() -> None:
    assert boundary_bytes_per_token(PRESETS["178m"], Boundary()) == 2048
    assert codec(PRESETS["178m"], Boundary()).bytes(tokens=10) == 20_480


@pytest.mark.parametrize("length", [1, 63, 64, 65, 4095, 4096, 4097, 10_000])
def test_chunks_of_a_vector(length: int) -> None:
    pieces = chunks((length,))
    assert sum(size * count for size, count in pieces) == length
    assert sum(count for _, count in pieces) == math.ceil(length / 4096)
    assert max(size for size, _ in pieces) <= 4096


def test_all_sizes_at_once() -> None:
    found = sizes(ODD, 3, Method())
    assert found.layers == (1, 2, 2)
    assert found.backward_flops_per_token == tuple(2 * n for n in found.forward_flops_per_token)
    assert found.upload_bytes == upload_bytes(ODD, 3, Method().outer)
    with pytest.raises(ValueError, match="5 layers cannot fill 6 stages"):
        sizes(ODD, 6, Method())
