"""Shapes that are timed only, and what a stage of them takes on its device: by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainer.config import PRESETS, Boundary, Model, Train
from trainer.device_memory import (
    activation_bytes,
    activation_bytes_per_token,
    state_on_device_bytes,
)
from trainer.sizes import forward_flops_per_token, parameters, tensor_shapes

NONE = Boundary()
SMALL = Model(d=8, layers=3, heads=4, kv_heads=2, ffn=20, seq=6, vocab=11)


@pytest.mark.parametrize(
    ("preset", "billions"),
    [("1b", 1.236 + 0.263), ("8b", 8.030), ("13b", 13.016), ("70b", 70.554)],
)
def test_shapes_to_time_have_the_published_parameters(preset: str, billions: float) -> None:
    """Of the 1b the head is counted too: Llama 3.2 shares it with the embedding."""
    assert sum(parameters(PRESETS[preset], 4, NONE)) / 1e9 == pytest.approx(billions, abs=6e-4)


def test_heads_that_share_keys_make_the_matrix_smaller() -> None:
    first = tensor_shapes(SMALL, 1, NONE)[0]
    assert first["layers.0.w_qkv"] == (8 + 2 * 4, 8)
    assert first["layers.0.w_o"] == (8, 8)


def test_attention_costs_what_all_heads_look_at() -> None:
    """8b at 8,192 tokens: 2 d seq a layer in a forward pass, an eighth of it."""
    model = PRESETS["8b"]
    whole = sum(forward_flops_per_token(model, 1, NONE))
    attention = 2 * 4096 * 8192 * 32
    assert whole - attention == 2 * (sum(parameters(model, 1, NONE)) - 128_256 * 4096 - 65 * 4096)
    assert attention / whole == pytest.approx(0.125, abs=0.001)


@pytest.mark.parametrize("kv_heads", [3, 8])
def test_heads_must_be_shared_evenly(kv_heads: int) -> None:
    with pytest.raises(ValidationError, match="heads must be a multiple of kv_heads"):
        Model(d=8, heads=4, kv_heads=kv_heads)


@pytest.mark.parametrize("model", ["8b", SMALL])
def test_they_are_not_trained(model: Model) -> None:
    with pytest.raises(ValidationError, match=r"can be timed, as work\.model, and not trained"):
        Train(model=model)
    Train(model=SMALL.model_copy(update={"kv_heads": 4}))


def test_a_parameter_takes_sixteen_bytes() -> None:
    assert sum(state_on_device_bytes(PRESETS["70b"], 8, NONE)) == 16 * 70_553_706_496


def test_what_a_layer_keeps_of_a_token_by_hand() -> None:
    layer = 2 * (6 * 8 + 2 * 4 + 3 * 20)
    assert activation_bytes_per_token(SMALL, 2) == (layer, 2 * layer + 4 * 8 + 4 * 11)


def test_activations_of_micro_batches_in_flight_and_computed_again() -> None:
    first, last = activation_bytes_per_token(SMALL, 2)
    assert activation_bytes(SMALL, 12, [5, 1], recompute=False) == (12 * 5 * first, 12 * last)
    assert activation_bytes(SMALL, 12, [5, 1], recompute=True) == (
        12 * (5 * 16 + first),
        12 * (16 + last),
    )
