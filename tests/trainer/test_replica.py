"""One replica's inner steps against a plain AdamW loop, with stages out and coming back."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.boundary import codec
from trainer.config import Boundary, Inner, Model
from trainer.model import Pipeline, initialise
from trainer.replica import NonFiniteLoss, Replica, learning_rate
from trainer.state import ReplicaState, lay_out

MODEL = Model(d=16, layers=4, heads=2, ffn=24, seq=8, vocab=60)
INNER = Inner(lr=1e-2, clip=0.5, warmup=0.2)
TOTAL = 12


def sequences(h: int) -> Tensor:
    return torch.randint(0, MODEL.vocab, (2, MODEL.seq + 1), generator=torch.manual_seed(h))


def new_replica(inner: Inner = INNER) -> tuple[Replica, list[Tensor]]:
    agreed = Pipeline(MODEL, 4, codec(MODEL, Boundary(), 4, 0))
    initialise(agreed, 0, MODEL.layers)
    replica = Replica(MODEL, 4, inner, agreed.codec, TOTAL)
    replica.take(0, new_state(replica), agreed.codec)
    return replica, agreed.flat


def new_state(replica: Replica) -> ReplicaState:
    return lay_out(torch.zeros, replica.pipeline.shapes, replicas=1, rows=0).replicas[0]


def steps(*per_stage: int) -> NDArray[np.int32]:
    return np.array(per_stage, dtype=np.int32)


def train(replica: Replica, anchor: list[Tensor], *per_stage: int, round_: int = 0) -> Any:
    first = 4 * round_
    return replica.train(
        anchor, steps(*per_stage), round_, first, lambda h: sequences(100 * round_ + h)
    )


def plain_adamw(anchor: list[Tensor], count: int, inner: Inner) -> list[Tensor]:
    """AdamW by its formulas, in float64 but for the model's own gradients."""
    model = Pipeline(MODEL, 1, codec(MODEL, Boundary(), 1, 0))
    cut = Pipeline(MODEL, 4, codec(MODEL, Boundary(), 4, 0))
    for flat, theta in zip(cut.flat, anchor, strict=True):
        flat.copy_(theta)
    weights = {n: p for s in range(4) for n, p in cut.named(s).items()}
    target = model.named(0)
    value = {n: p.detach().double() for n, p in weights.items()}
    first = {n: torch.zeros_like(p) for n, p in value.items()}
    second = {n: torch.zeros_like(p) for n, p in value.items()}
    for h in range(count):
        with torch.no_grad():
            for name, parameter in target.items():
                parameter.copy_(value[name])
        model.zero_grad()
        model.loss(sequences(h), [0]).backward()  # type: ignore[no-untyped-call]
        gradient = {n: p.grad.double() for n, p in target.items() if p.grad is not None}
        norm = math.sqrt(sum(g.square().sum().item() for g in gradient.values()))
        scale = min(1.0, inner.clip / norm)
        rate = learning_rate(inner, h, TOTAL)
        for name, g in gradient.items():
            g = g * scale
            first[name] = inner.beta1 * first[name] + (1 - inner.beta1) * g
            second[name] = inner.beta2 * second[name] + (1 - inner.beta2) * g * g
            m = first[name] / (1 - inner.beta1 ** (h + 1))
            v = second[name] / (1 - inner.beta2 ** (h + 1))
            if value[name].ndim == 2:
                value[name] = value[name] * (1 - rate * inner.weight_decay)
            value[name] = value[name] - rate * m / (v.sqrt() + inner.eps)
    return [torch.cat([value[n].flatten() for n in cut.named(s)]) for s in range(4)]


@pytest.mark.parametrize("clip", [0.05, 1e9])
def test_inner_steps_are_plain_adamw(clip: float) -> None:
    inner = Inner(lr=1e-3, clip=clip, weight_decay=0.3, eps=1e-4)
    replica, anchor = new_replica(inner)
    done = train(replica, anchor, 4, 4, 4, 4)
    for found, expected in zip(replica.state.local, plain_adamw(anchor, 4, inner), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-6)
    assert done.tokens == 4 * 2 * MODEL.seq
    assert done.nats / done.tokens == pytest.approx(math.log(MODEL.vocab), rel=0.05)


def all_moments(replica: Replica) -> dict[str, Tensor]:
    return replica.state.moments(replica.pipeline.shapes)


def moments(replica: Replica, stage: int) -> dict[str, Tensor]:
    names = replica.pipeline.shapes[stage]
    found = all_moments(replica)
    return {k: t.clone() for k, t in found.items() if k.rsplit("/", 1)[0] in names}


def test_a_stage_that_is_out_does_not_move() -> None:
    """No gradient, no weight decay, no Adam step: of the parameters and of the moments."""
    replica, anchor = new_replica()
    train(replica, anchor, 4, 4, 4, 4)
    before = [moments(replica, s) for s in range(4)]
    train(replica, anchor, 4, 0, 2, 4, round_=1)
    assert torch.equal(replica.state.local[1], anchor[1])
    for name, tensor in moments(replica, 1).items():
        assert torch.equal(tensor, before[1][name]), name
    for s in (0, 2, 3):
        assert not torch.equal(replica.state.local[s], anchor[s])
    step = {
        s: {t.item() for n, t in moments(replica, s).items() if n.endswith("/step")}
        for s in range(4)
    }
    assert step == {0: {8.0}, 1: {4.0}, 2: {6.0}, 3: {8.0}}


def test_a_stage_lost_in_the_middle_keeps_what_it_had_then() -> None:
    """And the others go on as if it were not there: the same first two steps, by bits."""
    lost, anchor = new_replica()
    train(lost, anchor, 4, 4, 2, 4)
    stopped, _ = new_replica()
    train(stopped, anchor, 2, 2, 2, 2)
    assert torch.equal(lost.state.local[2], stopped.state.local[2])
    assert not torch.equal(lost.state.local[1], stopped.state.local[1])


def test_the_norm_that_is_clipped_is_that_of_the_live_stages() -> None:
    replica, anchor = new_replica(Inner(clip=1e-3))
    train(replica, anchor, 1, 0, 1, 1)
    norms = [p.grad.norm() for p in replica.pipeline.parameters() if p.grad is not None]
    assert len(norms) == sum(len(replica.pipeline.shapes[s]) for s in (0, 2, 3))
    assert torch.stack(norms).norm().item() == pytest.approx(1e-3, rel=1e-4)


def test_parameters_restart_from_the_anchor_and_moments_live_on() -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 4, 4, 4, 4)
    first = [flat.clone() for flat in replica.state.local]
    train(replica, anchor, 4, 4, 4, 4)
    again = [flat.clone() for flat in replica.state.local]
    fresh, _ = new_replica()
    for name, tensor in all_moments(fresh).items():
        tensor.copy_(all_moments(replica)[name])
    assert all(not torch.equal(a, b) for a, b in zip(first, again, strict=True))
    train(replica, anchor, 4, 4, 4, 4)
    train(fresh, anchor, 4, 4, 4, 4)
    assert all(
        torch.equal(a, b) for a, b in zip(replica.state.local, fresh.state.local, strict=True)
    )


def test_a_join_resets_moments_and_step_counter_of_its_stage_only() -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 4, 4, 4, 4)
    others = {s: moments(replica, s) for s in (0, 1, 3)}
    replica.state.forget(2)
    assert all(tensor.abs().max() == 0 for tensor in moments(replica, 2).values())
    for s, before in others.items():
        assert all(torch.equal(t, before[n]) for n, t in moments(replica, s).items())
    train(replica, anchor, 2, 2, 2, 2, round_=1)
    assert moments(replica, 2)["layers.2.w_o/step"].item() == 2
    assert moments(replica, 1)["layers.1.w_o/step"].item() == 6


def test_a_copy_of_the_model_serves_one_replica_after_another() -> None:
    """Going from one to the other and back changes no bit of either."""
    both, anchor = new_replica()
    alone, _ = new_replica()
    first, other = both.state, new_state(both)
    for round_ in range(2):
        for index, state in enumerate((first, other)):
            both.take(index, state, both.pipeline.codec)
            train(both, anchor, *((4, 4, 4, 4) if index == 0 else (4, 1, 4, 4)), round_=round_)
        train(alone, anchor, 4, 4, 4, 4, round_=round_)
    both.take(0, first, both.pipeline.codec)
    assert all(torch.equal(t, all_moments(alone)[n]) for n, t in all_moments(both).items())
    for mine, theirs in zip(first.local, alone.state.local, strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(other.local[1], first.local[1])
    assert [c[0].item() for c in other.counters] == [8, 2, 8, 8]


def test_an_idle_round_does_nothing() -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 4, 4, 4, 4)
    before = {n: t.clone() for n, t in all_moments(replica).items()}

    def no_batch(h: int) -> Tensor:
        raise AssertionError("an idle replica reads no data")

    done = replica.train(anchor, steps(0, 0, 0, 0), 1, 4, no_batch)
    assert (done.tokens, done.nats, done.hops) == (0, 0.0, {})
    assert done.forward_calls.tolist() == [0, 0, 0, 0]
    assert all(torch.equal(tensor, before[n]) for n, tensor in all_moments(replica).items())


def test_forward_calls_and_hops_are_those_of_the_mask() -> None:
    replica, anchor = new_replica()
    done = train(replica, anchor, 4, 3, 1, 4)
    tokens = 2 * MODEL.seq
    assert done.forward_calls.tolist() == [4, 3, 1, 4]
    expected = {(0, 1): 3, (1, 2): 1, (2, 3): 1, (1, 3): 2, (0, 3): 1}
    assert done.hops == {hop: count * tokens for hop, count in expected.items()}


def test_the_schedule_warms_up_then_falls_as_a_cosine() -> None:
    inner = Inner(lr=2.0, warmup=0.1, final=0.25)
    rates = [learning_rate(inner, t, 101) for t in range(101)]
    assert rates[:10] == pytest.approx([2.0 * (t + 1) / 10 for t in range(10)])
    assert rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx((2.0 + 0.5) / 2)
    assert rates[100] == pytest.approx(0.5)
    assert all(a > b for a, b in pairwise(rates[10:]))


@pytest.mark.parametrize(("warmup", "total"), [(0.0, 1), (0.0, 2), (0.1, 3), (0.9, 10), (0.99, 1)])
def test_the_schedule_of_a_short_job_stays_within_its_bounds(warmup: float, total: int) -> None:
    inner = Inner(lr=1.0, warmup=warmup, final=0.1)
    rates = [learning_rate(inner, t, total) for t in range(total)]
    assert max(rates) == pytest.approx(1.0)
    assert min(rates) > 0


def test_a_slot_that_was_away_meets_the_schedule_where_the_others_are() -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 4, 0, 4, 4)
    train(replica, anchor, 1, 1, 1, 1, round_=2)
    rates = {group["lr"] for group in replica.optimizer.param_groups}
    assert rates == {learning_rate(INNER, 8, TOTAL)}


def spoil(anchor: list[Tensor], value: float) -> list[Tensor]:
    spoiled = [theta.clone() for theta in anchor]
    spoiled[1][5] = value
    return spoiled


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_told_before_anything_moves(value: float) -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 4, 4, 4, 4)
    before = {n: t.clone() for n, t in all_moments(replica).items()}
    with pytest.raises(NonFiniteLoss, match="loss at global step 1, inner step 0, replica 0") as e:
        train(replica, spoil(anchor, value), 4, 4, 4, 4, round_=1)
    assert (e.value.global_step, e.value.inner_step, e.value.replica) == (1, 0, 0)
    assert all(torch.equal(tensor, before[n]) for n, tensor in all_moments(replica).items())


def test_a_gradient_that_is_not_finite_is_told() -> None:
    replica, anchor = new_replica()
    train(replica, anchor, 1, 1, 1, 1)
    parameter = next(replica.pipeline.parameters())
    parameter.register_hook(lambda gradient: gradient * math.inf)
    before = {n: t.clone() for n, t in all_moments(replica).items()}
    with pytest.raises(NonFiniteLoss, match="gradient at global step 0, inner step 0"):
        train(replica, anchor, 4, 4, 4, 4)
    assert all(torch.equal(tensor, before[n]) for n, tensor in all_moments(replica).items())


def test_a_last_step_out_of_range_is_told() -> None:
    """The loss of a step says nothing about the parameters that its update left."""
    replica, anchor = new_replica(Inner(lr=1e38, weight_decay=1e3, warmup=0))
    with pytest.raises(NonFiniteLoss, match="parameter at global step 0, inner step 0"):
        train(replica, anchor, 1, 1, 1, 1)
