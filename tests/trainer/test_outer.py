"""The outer step against a naive one, and against the cases that it must reduce to."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.compress import Compressor
from trainer.config import Average, Boundary, Method, Model, SparseLoCo
from trainer.outer import outer_method
from trainer.sizes import Shape, kept_values, parameters, tensor_shapes

SHAPES: list[dict[str, Shape]] = [{"a": (70, 66), "b": (5,)}, {"c": (9, 3)}, {"d": (130,)}]
COUNT = [sum(math.prod(shape) for shape in stage.values()) for stage in SHAPES]


def vectors(draw: np.random.Generator, count: list[int] = COUNT) -> list[Tensor]:
    return [torch.from_numpy(draw.standard_normal(n).astype(np.float32)) for n in count]


@pytest.mark.parametrize("aggregate", ["mean_present", "mean_senders"])
def test_all_kept_at_full_width_after_one_step_of_sgd_is_an_averaged_gradient_step(
    aggregate: Literal["mean_present", "mean_senders"],
) -> None:
    draw = np.random.default_rng(0)
    config = SparseLoCo(density=1.0, bits=32, aggregate=aggregate, lr=2.0)
    method = outer_method(config, SHAPES)
    theta = vectors(draw)
    gradients = [vectors(draw) for _ in range(4)]
    local = [[t - 0.1 * g for t, g in zip(theta, mine, strict=True)] for mine in gradients]
    sends = np.ones((4, 3), dtype=bool)
    found, state, counts = method.step(theta, local, sends, method.init(theta, 4))
    for s, count in enumerate(COUNT):
        mean = torch.stack([gradients[m][s] for m in range(4)]).mean(0)
        torch.testing.assert_close(found[s], theta[s] - 2.0 * 0.1 * mean, rtol=1e-5, atol=1e-6)
        assert counts.kept[:, s].tolist() == [count] * 4
        assert all(state[m][s].abs().max() < 1e-6 for m in range(4))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["mean_present", "mean_senders"]),
    st.sampled_from([2, 32]),
)
def test_sparseloco_is_the_naive_one_over_rounds_with_absent_slots(
    seed: int,
    aggregate: Literal["mean_present", "mean_senders"],
    bits: Literal[2, 32],
) -> None:
    draw = np.random.default_rng(seed)
    config = SparseLoCo(density=0.1, bits=bits, aggregate=aggregate, lr=3.0, error_feedback=0.9)
    method = outer_method(config, SHAPES)
    wire = [Compressor(stage, 0.1, bits) for stage in SHAPES]
    theta = vectors(draw)
    state = method.init(theta, 3)
    naive = [t.double().numpy() for t in theta]
    errors = np.array([[np.zeros(n) for n in COUNT] for _ in range(3)], dtype=object)
    for _ in range(3):
        sends = draw.random((3, 3)) < 0.6
        local = [vectors(draw) for _ in range(3)]
        before = [t.clone() for t in theta]
        for s in range(3):
            pushed, senders = np.zeros(COUNT[s]), np.zeros(COUNT[s])
            for m in np.flatnonzero(sends[:, s]):
                held = 0.9 * errors[m, s] + (theta[s] - local[m][s]).double().numpy()
                sent = wire[s].encode(torch.from_numpy(held.astype(np.float32)))
                dense = np.zeros(COUNT[s])
                dense[sent.index.numpy()] = sent.value.double().numpy()
                senders[sent.index.numpy()] += 1
                errors[m, s] = held - dense
                pushed += dense
            present = int(sends[:, s].sum())
            if present:
                by = present if aggregate == "mean_present" else np.maximum(senders, 1)
                naive[s] = naive[s] - 3.0 * pushed / by
        anchor, state, _ = method.step(theta, local, sends, state)
        assert all(torch.equal(a, b) for a, b in zip(theta, before, strict=True))
        for s in range(3):
            np.testing.assert_allclose(anchor[s].numpy(), naive[s], rtol=1e-4, atol=1e-4)
            for m in range(3):
                np.testing.assert_allclose(state[m][s].numpy(), errors[m, s], rtol=1e-4, atol=1e-4)
        theta = anchor
        naive = [t.double().numpy() for t in theta]
        errors = np.array([[e.double().numpy() for e in mine] for mine in state], dtype=object)


@pytest.mark.parametrize("config", [SparseLoCo(), Average(name="average")])
def test_a_stage_that_nobody_sends_stays(config: SparseLoCo | Average) -> None:
    draw = np.random.default_rng(1)
    method = outer_method(config, SHAPES)
    theta, local = vectors(draw), [vectors(draw), vectors(draw)]
    sends = np.array([[True, False, True], [True, False, False]])
    found, _, counts = method.step(theta, local, sends, method.init(theta, 2))
    assert torch.equal(found[1], theta[1])
    assert not torch.equal(found[0], theta[0])
    assert not torch.equal(found[2], theta[2])
    assert np.array_equal(counts.kept > 0, sends)


def test_who_does_not_send_keeps_its_error_feedback() -> None:
    draw = np.random.default_rng(2)
    method = outer_method(SparseLoCo(), SHAPES)
    theta, local = vectors(draw), [vectors(draw), vectors(draw)]
    all_send = np.ones((2, 3), dtype=bool)
    _, first, _ = method.step(theta, local, all_send, method.init(theta, 2))
    kept = [[e.clone() for e in mine] for mine in first]
    sends = np.array([[True, False, True], [False, False, True]])
    _, second, _ = method.step(theta, local, sends, first)
    for m in range(2):
        for s in range(3):
            assert torch.equal(second[m][s], kept[m][s]) != sends[m, s]
            assert torch.equal(first[m][s], kept[m][s])  # the old memory is still whole


def test_what_is_sent_and_what_is_kept_back_add_up() -> None:
    draw = np.random.default_rng(3)
    config = SparseLoCo(density=0.05, bits=2, lr=1.0, error_feedback=0.5)
    method = outer_method(config, SHAPES)
    theta, local = vectors(draw), [vectors(draw)]
    memory = [vectors(draw)]
    found, state, _ = method.step(theta, local, np.ones((1, 3), dtype=bool), memory)
    for s in range(3):
        sent = theta[s] - found[s]
        held = 0.5 * memory[0][s] + theta[s] - local[0][s]
        torch.testing.assert_close(sent + state[0][s], held, rtol=1e-5, atol=1e-5)


def test_the_two_means_differ_where_few_send_a_coordinate() -> None:
    shapes: list[dict[str, Shape]] = [{"w": (4,)}]
    theta = [torch.zeros(4)]
    local = [[torch.tensor([-8.0, -1.0, 0.0, 0.0])], [torch.tensor([-6.0, 0.0, -1.0, 0.0])]]
    local.append([torch.tensor([0.0, 0.0, 0.0, -3.0])])
    sends = np.ones((3, 1), dtype=bool)
    found = {}
    for aggregate in ("mean_present", "mean_senders"):
        config = SparseLoCo(density=0.25, bits=32, lr=1.0, aggregate=aggregate)
        method = outer_method(config, shapes)
        found[aggregate] = method.step(theta, local, sends, method.init(theta, 3))[0][0].tolist()
    assert found["mean_present"] == pytest.approx([-14 / 3, 0, 0, -1])
    assert found["mean_senders"] == pytest.approx([-7, 0, 0, -3])


def test_a_join_clears_the_error_feedback_of_that_slot_only() -> None:
    draw = np.random.default_rng(4)
    method = outer_method(SparseLoCo(), SHAPES)
    state = [vectors(draw), vectors(draw)]
    joins = np.array([[False, True, False], [False, False, False]])
    after = method.join(state, joins)
    for m in range(2):
        for s in range(3):
            expected = torch.zeros_like(state[m][s]) if joins[m, s] else state[m][s]
            assert torch.equal(after[m][s], expected)
    assert state[0][1].abs().max() > 0


def test_average_is_the_mean_of_those_present() -> None:
    draw = np.random.default_rng(5)
    method = outer_method(Average(name="average", lr=0.5), SHAPES)
    theta, local = vectors(draw), [vectors(draw) for _ in range(3)]
    sends = np.array([[True] * 3, [False, True, True], [True] * 3])
    found, state, counts = method.step(theta, local, sends, method.init(theta, 3))
    mean = (local[0][0] + local[2][0]) / 2
    torch.testing.assert_close(found[0], theta[0] + 0.5 * (mean - theta[0]))
    assert state == []
    assert counts.kept.tolist() == [COUNT, [0, *COUNT[1:]], COUNT]


@pytest.mark.parametrize("config", [SparseLoCo(density=0.07), Average(name="average")])
def test_counts_are_the_arithmetic(config: SparseLoCo | Average) -> None:
    model = Model(d=66, layers=4, heads=1, ffn=70, seq=4, vocab=129)
    method = outer_method(config, tensor_shapes(model, 3, Boundary()))
    draw = np.random.default_rng(6)
    count = list(parameters(model, 3, Boundary()))
    theta, local = vectors(draw, count), [vectors(draw, count)]
    _, _, counts = method.step(theta, local, np.ones((1, 3), dtype=bool), method.init(theta, 1))
    assert tuple(counts.kept[0].tolist()) == kept_values(model, 3, Method(outer=config))
