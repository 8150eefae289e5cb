"""The outer step against a naive one, and against the cases that it must reduce to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from tests.trainer.naive import naive_kept, naive_two_bit
from trainer.config import Average, Boundary, DiLoCo, Method, Model, Outer, SparseLoCo
from trainer.outer import outer_method
from trainer.sizes import Shape, kept_values, parameters, tensor_shapes

SHAPES: list[dict[str, Shape]] = [{"a": (70, 66), "b": (5,)}, {"c": (9, 3)}, {"d": (130,)}]
Vector = NDArray[np.float64]
COUNT = [sum(math.prod(shape) for shape in stage.values()) for stage in SHAPES]


def vectors(draw: np.random.Generator, count: list[int] = COUNT) -> list[Tensor]:
    return [torch.from_numpy(draw.standard_normal(n).astype(np.float32)) for n in count]


@pytest.mark.parametrize("aggregate", ["mean_present", "mean_senders", "mean_all"])
def test_all_kept_at_full_width_after_one_step_of_sgd_is_an_averaged_gradient_step(
    aggregate: Literal["mean_present", "mean_senders", "mean_all"],
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


Rule = Literal["mean_present", "mean_senders", "mean_all"]
odd = st.one_of(st.tuples(st.integers(1, 90), st.integers(1, 90)), st.tuples(st.integers(1, 5000)))
two_stages = st.lists(st.lists(odd, min_size=1, max_size=3), min_size=2, max_size=2)


def naive_step(
    theta: Vector,
    shapes: list[Shape],
    pseudo: dict[int, Vector],
    errors: list[Vector],
    config: SparseLoCo,
) -> Vector:
    """The next theta of a stage in float64, by algorithms.md word for word; errors are replaced.

    pseudo: Delta_m by sender.
    """
    if not pseudo:
        return theta
    sent: dict[int, list[Vector]] = {}  # by sender, tensor by tensor, zeros where nothing is
    for m, delta in pseudo.items():
        held = config.error_feedback * errors[m] + delta
        # the magnitudes that are compared are float32
        places = naive_kept(held.astype(np.float32), shapes, config.density)
        dense = [np.zeros_like(held) for _ in shapes]
        for mine, kept in zip(dense, places, strict=True):
            values = held[kept]
            mine[kept] = naive_two_bit(values) if config.bits == 2 else values
        sent[m] = dense
        errors[m] = held - sum(dense)
    kept_by = sum((np.abs(sum(dense)) > 0).astype(int) for dense in sent.values())
    if config.clip_to_median:
        for t in range(len(shapes)):
            norms = {m: np.sqrt((dense[t] ** 2).sum()) for m, dense in sent.items()}
            median = np.median(list(norms.values()))
            for m, norm in norms.items():
                sent[m][t] = sent[m][t] * (min(1.0, median / norm) if norm > 0 else 1.0)
    total = sum(sum(dense) for dense in sent.values())
    if config.aggregate == "mean_senders":
        return theta - config.lr * total / np.maximum(kept_by, 1)
    by = len(sent) if config.aggregate == "mean_present" else len(errors)
    return theta - config.lr * total / by


@settings(deadline=None, max_examples=60)
@given(
    two_stages,
    st.integers(0, 2**32 - 1),
    st.sampled_from(["mean_present", "mean_senders", "mean_all"]),
    st.sampled_from([2, 32]),
    st.booleans(),
    st.sampled_from([1e-4, 0.03125, 0.3, 1.0]),
)
def test_sparseloco_is_the_naive_one_over_rounds_with_absent_slots(
    shapes: list[list[Shape]],
    seed: int,
    aggregate: Rule,
    bits: Literal[2, 32],
    clip: bool,
    density: float,
) -> None:
    draw = np.random.default_rng(seed)
    config = SparseLoCo(
        density=density,
        bits=bits,
        aggregate=aggregate,
        clip_to_median=clip,
        lr=3.0,
        error_feedback=0.9,
    )
    method = outer_method(config, [{str(i): s for i, s in enumerate(mine)} for mine in shapes])
    count = [sum(math.prod(shape) for shape in mine) for mine in shapes]
    theta = vectors(draw, count)
    state = method.init(theta, 3)
    for _ in range(2):
        sends = draw.random((3, 2)) < 0.7
        # replica 2 strays, so that there is something to clip
        local = [[t * (5.0 if m == 2 else 1.0) for t in vectors(draw, count)] for m in range(3)]
        before = [t.clone() for t in theta]
        anchor, after, _ = method.step(theta, local, sends, state)
        assert all(torch.equal(a, b) for a, b in zip(theta, before, strict=True))
        for s in range(2):
            errors = [state[m][s].double().numpy() for m in range(3)]
            pseudo = {
                int(m): (theta[s] - local[m][s]).double().numpy()
                for m in np.flatnonzero(sends[:, s])
            }
            naive = naive_step(theta[s].double().numpy(), shapes[s], pseudo, errors, config)
            np.testing.assert_allclose(anchor[s].numpy(), naive, rtol=1e-4, atol=2e-4)
            for m in range(3):
                np.testing.assert_allclose(after[m][s].numpy(), errors[m], rtol=1e-4, atol=1e-4)
        theta, state = anchor, after


def test_a_step_small_enough_to_check_by_hand(golden: Callable[[str, Any], None]) -> None:
    """Two replicas, one 2 x 2 matrix and a vector of 3, a half of each kept, two rounds; the
    numbers are eighths, so every rule is exact."""
    shapes: list[dict[str, Shape]] = [{"matrix": (2, 2), "vector": (3,)}]
    theta = [torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0])]
    deltas = [
        [[4.0, -2.0, 1.0, 0.5, 1.0, 2.0, -4.0], [1.0, 2.0, -0.5, 8.0, 4.0, -1.0, 4.0]],
        [[0.0, 1.0, 1.0, 0.5, 1.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0, 0.0, 2.0, 0.0]],
    ]
    told: dict[str, Any] = {"theta": theta[0].tolist(), "pseudo_gradients": deltas}
    for aggregate in ("mean_present", "mean_senders", "mean_all"):
        config = SparseLoCo(density=0.5, bits=32, aggregate=aggregate, lr=0.5, error_feedback=0.5)
        method = outer_method(config, shapes)
        anchor, state = theta, method.init(theta, 2)
        told[aggregate] = []
        for g, of_round in enumerate(deltas):
            local = [[anchor[0] - torch.tensor(delta)] for delta in of_round]
            sends = np.array([[True], [g == 0]])  # replica 1 sends in the first round only
            anchor, state, counts = method.step(anchor, local, sends, state)
            told[aggregate].append(
                {
                    "theta": anchor[0].tolist(),
                    "error_feedback": [errors[0].tolist() for errors in state],
                    "kept": counts.kept[:, 0].tolist(),
                }
            )
    golden("sparseloco_step", told)


def test_codes_are_counted_as_they_are_sent() -> None:
    draw = np.random.default_rng(7)
    theta, local = vectors(draw), [vectors(draw), vectors(draw)]
    sends = np.array([[True, True, False], [False, True, True]])
    method = outer_method(SparseLoCo(density=0.1), SHAPES)
    counts = method.step(theta, local, sends, method.init(theta, 2))[2]
    assert counts.codes.sum() == counts.kept.sum() > 0
    for other in (SparseLoCo(bits=32), Average(name="average"), DiLoCo(name="diloco")):
        method = outer_method(other, SHAPES)
        counts = method.step(theta, local, sends, method.init(theta, 2))[2]
        assert counts.codes.tolist() == [0, 0, 0, 0]


def test_the_median_of_two_senders_is_their_mean_norm() -> None:
    shapes: list[dict[str, Shape]] = [{"a": (1,), "b": (1,)}]
    theta = [torch.zeros(2)]
    local = [[torch.tensor([-2.0, -1.0])], [torch.tensor([-6.0, 0.0])]]
    config = SparseLoCo(density=1.0, bits=32, lr=1.0, clip_to_median=True, aggregate="mean_all")
    method = outer_method(config, shapes)
    sends = np.array([[True], [True]])
    found, state, _ = method.step(theta, local, sends, method.init(theta, 2))
    assert found[0].tolist() == pytest.approx([-(2 + 4) / 2, -(0.5 + 0) / 2])
    assert all(errors[0].abs().max() == 0 for errors in state)  # what is clipped is not held back


@pytest.mark.parametrize("config", [SparseLoCo(), Average(name="average"), DiLoCo(name="diloco")])
def test_a_stage_that_nobody_sends_stays(config: Outer) -> None:
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


@pytest.mark.parametrize(
    "config", [SparseLoCo(density=0.07), Average(name="average"), DiLoCo(name="diloco")]
)
def test_counts_are_the_arithmetic(config: Outer) -> None:
    model = Model(d=66, layers=4, heads=1, ffn=70, seq=4, vocab=129)
    method = outer_method(config, tensor_shapes(model, 3, Boundary()))
    draw = np.random.default_rng(6)
    count = list(parameters(model, 3, Boundary()))
    theta, local = vectors(draw, count), [vectors(draw, count)]
    _, _, counts = method.step(theta, local, np.ones((1, 3), dtype=bool), method.init(theta, 1))
    assert tuple(counts.kept[0].tolist()) == kept_values(model, 3, Method(outer=config))
