"""Arithmetic against real tensors, torch's own FLOP counter and the published figures."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainer.boundary import codec
from trainer.compress import Compressor
from trainer.config import (
    PRESETS,
    Average,
    Boundary,
    DiLoCo,
    Method,
    Model,
    Outer,
    SparseLoCo,
)
from trainer.model import Pipeline
from trainer.sizes import (
    boundary_bytes_per_token,
    chunks,
    forward_flops_per_token,
    kept_values,
    layers_per_stage,
    parameters,
    restore_bytes,
    sizes,
    state_bytes,
    tensor_shapes,
    upload_bytes,
)

ODD = Model(d=10, layers=5, heads=1, ffn=70, seq=6, vocab=131)
AVERAGE = Average(name="average")
DILOCO = DiLoCo(name="diloco")
NONE = Boundary()
CODECS = [
    NONE,
    Boundary(codec="constrained", ratio=0.3),
    Boundary(codec="shared", ratio=0.3),
    Boundary(codec="independent", ratio=0.3),
]


def method(outer: Outer, boundary: Boundary = NONE) -> Method:
    return Method(outer=outer, boundary=boundary)


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
    total = sum(parameters(PRESETS[preset], 4, NONE))
    assert total / 1e6 == pytest.approx(millions, abs=0.05 if preset == "512m" else 0.005)


@pytest.mark.parametrize(("keep", "megabytes"), [(64, 4.86), (128, 9.71)])
def test_178m_uploads_the_published_bytes(keep: int, megabytes: float) -> None:
    outer = SparseLoCo(density=keep / 4096, bits=2)
    assert sum(upload_bytes(PRESETS["178m"], 4, method(outer))) / 1e6 == pytest.approx(
        megabytes, abs=0.006
    )


def test_178m_dense_is_710_megabytes() -> None:
    total = sum(upload_bytes(PRESETS["178m"], 4, method(AVERAGE)))
    assert total / 1e6 == pytest.approx(710, abs=1)
    assert total == sum(restore_bytes(PRESETS["178m"], 4, method(AVERAGE)))


@pytest.mark.parametrize("boundary", CODECS, ids=lambda b: b.codec)
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_shapes_and_parameters_are_those_of_the_real_tensors(
    stages: int, boundary: Boundary
) -> None:
    pipeline = Pipeline(ODD, stages, codec(ODD, boundary, stages, 0))
    for s, shapes in enumerate(tensor_shapes(ODD, stages, boundary)):
        real = {n: tuple(p.shape) for n, p in pipeline.stages[s].named_parameters()}
        count = sum(p.numel() for p in pipeline.stages[s].parameters())
        assert real == shapes
        assert parameters(ODD, stages, boundary)[s] == count
        assert parameters(ODD, stages, boundary)[s] == pipeline.flat[s].numel()


@pytest.mark.parametrize("boundary", CODECS, ids=lambda b: b.codec)
@pytest.mark.parametrize("density", [1e-6, 0.03125, 0.3, 1.0])
@pytest.mark.parametrize("model", [ODD, PRESETS["tiny"].model_copy(update={"vocab": 300})])
def test_kept_values_are_those_of_a_real_upload(
    model: Model, density: float, boundary: Boundary
) -> None:
    how = method(SparseLoCo(density=density), boundary)
    for s, shapes in enumerate(tensor_shapes(model, 3, boundary)):
        vector = torch.randn(sum(math.prod(shape) for shape in shapes.values()))
        kept = Compressor(shapes, density, bits=32).encode(vector).kept
        assert kept == kept_values(model, 3, how)[s]
    assert kept_values(model, 3, method(AVERAGE, boundary)) == parameters(model, 3, boundary)


def test_a_subspace_saves_parameters_by_hand() -> None:
    """k = 3 of 10: embedding 131 x 3, and 3 instead of 10 outputs of w_o and w_down."""
    layer = 10 + 300 + 10 * 3 + 10 + 2 * 700 + 70 * 3
    shared = Boundary(codec="shared", ratio=0.3)
    middle, last = layer, layer + 10 + 1310
    assert parameters(ODD, 5, shared) == (131 * 3 + layer, middle, middle, middle, last)
    free = layer + 7 * 80 + 10 + 1310
    own = Boundary(codec="independent", ratio=0.3)
    assert parameters(ODD, 5, own) == (131 * 3 + layer, middle, middle, middle, free)


def test_bytes_of_a_tensor_by_hand() -> None:
    # One layer, one stage, all norms of 10: 1 of 10 kept, 4 bits of index.
    # embed, head 131 x 10: blocks 64 x 10 (twice) and 3 x 10; keep 20 + 20 + 1 of 640, 640, 30.
    model = Model(d=10, layers=1, heads=1, ffn=70, seq=6, vocab=131)
    kept = {"embed": 41, "head": 41, "w_qkv": 300 // 32, "w_o": 3, "w_gate": 22, "w_up": 22}
    kept |= {"w_down": 22, "norms": 1}
    assert sum(kept_values(model, 1, Method())) == sum(kept.values()) + 2
    bits = {name: count * (10 + 2) for name, count in kept.items()}  # 640 places: 10 bits
    bits |= {"w_qkv": 9 * (9 + 2), "w_o": 3 * (7 + 2), "norms": 4 + 2}  # 300, 100 and 10 places
    expected = sum(math.ceil(b / 8) + 20 for b in bits.values()) + 2 * (1 + 20)
    assert upload_bytes(model, 1, method(SparseLoCo(bits=2))) == (expected,)
    wide = upload_bytes(model, 1, method(SparseLoCo(bits=32)))[0]
    assert wide == sum(
        math.ceil((b + 30 * kept[name]) / 8) for name, b in bits.items()
    ) + 2 * math.ceil(36 / 8)


@pytest.mark.parametrize("boundary", CODECS, ids=lambda b: b.codec)
def test_state_is_parameters_two_moments_and_what_the_outer_method_remembers(
    boundary: Boundary,
) -> None:
    count = parameters(ODD, 3, boundary)
    for outer, state, restored in ((SparseLoCo(), 16, 4), (DILOCO, 16, 8), (AVERAGE, 12, 4)):
        how = method(outer, boundary)
        assert state_bytes(ODD, 3, how) == tuple(state * n for n in count)
        assert restore_bytes(ODD, 3, how) == tuple(restored * n for n in count)


@pytest.mark.parametrize("boundary", CODECS, ids=lambda b: b.codec)
@pytest.mark.parametrize("stages", [1, 3])
def test_flops_are_those_torch_counts(stages: int, boundary: Boundary) -> None:
    """torch counts attention as if it were not causal, so twice of it must be too much by one."""
    pipeline = Pipeline(ODD, stages, codec(ODD, boundary, stages, 0))
    for flat in pipeline.flat:
        flat.fill_(0.01)
    tokens = torch.zeros(2, ODD.seq, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        pipeline(tokens, range(stages))
    by_operator = counter.get_flop_counts()["Global"]
    products = sum(n for op, n in by_operator.items() if "attention" not in str(op))
    attention = ODD.layers * 2 * ODD.d * ODD.seq
    flops = sum(forward_flops_per_token(ODD, stages, boundary))
    assert products == tokens.numel() * (flops - attention)


def test_flops_of_a_stage_are_those_torch_counts() -> None:
    pipeline = Pipeline(ODD, 3, codec(ODD, NONE, 3, 0))
    x = torch.zeros(2, ODD.seq, dtype=torch.long)
    for s, layers in enumerate(layers_per_stage(ODD.layers, 3)):
        with FlopCounterMode(display=False) as counter:
            x = pipeline.stages[s](x)
        by_operator = counter.get_flop_counts()["Global"]
        products = sum(n for op, n in by_operator.items() if "attention" not in str(op))
        attention = layers * 2 * ODD.d * ODD.seq
        assert products == 12 * (forward_flops_per_token(ODD, 3, NONE)[s] - attention)


def test_attention_flops_are_those_of_the_causal_half() -> None:
    """Scores and mix, 2 x d each per pair of tokens, over seq / 2 pairs a token."""
    longer = ODD.model_copy(update={"seq": 2 * ODD.seq})
    more = sum(forward_flops_per_token(longer, 2, NONE)) - sum(
        forward_flops_per_token(ODD, 2, NONE)
    )
    assert more == ODD.layers * (2 * 2 * ODD.d) * ODD.seq / 2


def test_a_hop_costs_two_bytes_a_value_and_the_token_id_where_it_is_needed() -> None:
    model = PRESETS["178m"]
    assert boundary_bytes_per_token(model, NONE) == (2048, 2048)
    assert boundary_bytes_per_token(model, Boundary(codec="constrained")) == (2048, 2048)
    shared = Boundary(codec="shared", ratio=0.125, weak_replicas=2)
    assert boundary_bytes_per_token(model, shared) == (258, 256)
    assert [boundary_bytes_per_token(model, shared, r)[0] for r in range(3)] == [258, 258, 2048]
    own = Boundary(codec="independent", ratio=1e-6, weak_replicas=[1])
    assert [boundary_bytes_per_token(model, own, r)[1] for r in range(3)] == [2048, 2, 2048]
    large = model.model_copy(update={"vocab": 128_256})
    assert boundary_bytes_per_token(large, shared) == (260, 256)


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
    assert found.upload_bytes == upload_bytes(ODD, 3, Method())
    with pytest.raises(ValueError, match="5 layers cannot fill 6 stages"):
        sizes(ODD, 6, Method())
