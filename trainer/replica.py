"""The local AdamW steps of a replica between two outer steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainer.boundary import Codec
from trainer.config import Inner, Model
from trainer.model import Hop, Pipeline
from trainer.state import ReplicaState, Vectors, bind


class NonFiniteLoss(RuntimeError):
    """A loss, gradient or update is NaN or infinite: the global step cannot be committed.

    replica is None when it is the outer step itself that left the range of float32, or of what a
    loss can be computed with.
    """

    def __init__(self, what: str, global_step: int, inner_step: int, replica: int | None) -> None:
        who = "the outer step" if replica is None else f"replica {replica}"
        super().__init__(
            f"non-finite {what} at global step {global_step}, inner step {inner_step}, {who}: "
            f"try a lower learning rate, or start again from the last checkpoint"
        )
        self.what = what
        self.global_step = global_step
        self.inner_step = inner_step
        self.replica = replica

    def __reduce__(self) -> tuple[type[NonFiniteLoss], tuple[str, int, int, int | None]]:
        """It crosses process borders."""
        return NonFiniteLoss, (self.what, self.global_step, self.inner_step, self.replica)


@dataclass
class LocalRound:
    """What one replica did in one global step."""

    forward_calls: NDArray[np.int64]
    """int64[S]: how often each stage really ran forward, by its hook."""
    dropped: NDArray[np.int64]
    """int64[S]: how often a live stage was left out on purpose."""
    nats: float = 0.0
    """Sum of the losses over the predicted tokens."""
    tokens: int = 0
    """Tokens predicted, each once however many stages it went through."""
    hops: Counter[Hop] = field(default_factory=Counter)
    """Tokens that went over each hop, forward."""

    @staticmethod
    def of(stages: int) -> LocalRound:
        """Nothing yet."""
        return LocalRound(np.zeros(stages, np.int64), np.zeros(stages, np.int64))

    def with_nats(self, nats: float) -> LocalRound:
        """What a replica did that went the same way, and its own losses."""
        return replace(self, nats=nats, hops=self.hops.copy())

    def drop(self, live: list[int], stage: int, tokens: int) -> None:
        """Account for an inner step that leaves an inner stage out: the clock knows nothing of it,
        so tokens that go around the stage stand for tokens over the two hops by way of it."""
        at = live.index(stage)
        before, after = live[at - 1], live[at + 1]
        self.dropped[stage] += 1
        self.hops.update({(before, stage): tokens, (stage, after): tokens})
        self.hops.subtract({(before, after): tokens})


def learning_rate(inner: Inner, step: int, total: int) -> float:
    """Rate of global inner step `step` of `total`: linear warm-up, then cosine to `final`.

    The step is counted over the whole job, so a slot that was away meets the schedule where the
    others are. Step `warmup` (rounded) has the peak, the last one `final` times it.
    """
    warmup = inner.warmup_of(total)
    if step < warmup:
        return inner.lr * (step + 1) / warmup
    progress = (step - warmup) / max(1, total - 1 - warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return inner.lr * (inner.final + (1 - inner.final) * cosine)


class Replica:
    """A copy of the model that does inner steps: of one replica at a time, on that one's state.

    total: inner steps of the whole job, for the schedule.
    """

    def __init__(self, model: Model, stages: int, inner: Inner, codec: Codec, total: int) -> None:
        self.index: int  # by `take`
        self.state: ReplicaState
        self.inner = inner
        self.total = total
        self.pipeline = Pipeline(model, stages, codec)
        self._parameters = list(self.pipeline.parameters())
        self.optimizer = self._adamw()
        self.is_bf16 = self._parameters[0].is_cuda
        self._round = LocalRound.of(stages)
        for stage, module in enumerate(self.pipeline.stages):
            module.register_forward_hook(self._counter(stage))

    def _adamw(self) -> torch.optim.AdamW:
        """One AdamW for all stages. It keeps a step counter per parameter, and passes over
        parameters without a gradient, which is what a stage that is out needs."""
        matrices = [p for p in self._parameters if p.ndim == 2]
        vectors = [p for p in self._parameters if p.ndim == 1]
        return torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": self.inner.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            betas=(self.inner.beta1, self.inner.beta2),
            eps=self.inner.eps,
            fused=True,
        )

    def precision(self) -> AbstractContextManager[object]:
        """In which a forward pass is done: products in bf16 on a GPU; parameters stay fp32."""
        if not self.is_bf16:
            return nullcontext()
        return torch.autocast(self._parameters[0].device.type, torch.bfloat16)

    def _counter(self, stage: int) -> Callable[[nn.Module, Any, Any], None]:
        def count(module: nn.Module, inputs: Any, output: Any) -> None:
            self._round.forward_calls[stage] += 1

        return count

    def count_anew(self) -> LocalRound:
        """Begin a global step: what the forward hooks count from now on."""
        self._round = LocalRound.of(len(self.pipeline.stages))
        return self._round

    def take(self, index: int, state: ReplicaState, codec: Codec) -> None:
        """Become replica `index`: its parameters and moments are changed in place from now on."""
        self.index, self.state = index, state
        self.pipeline.codec = codec
        bind(self.pipeline, state.local)
        for stage, shapes in enumerate(self.pipeline.shapes):
            tensors = self.pipeline.named(stage)
            for name, adam in state.adam(stage, shapes).items():
                self.optimizer.state[tensors[name]] = adam

    def train(
        self,
        anchor: Vectors,
        steps: NDArray[np.int32],
        global_step: int,
        first: int,
        batch: Callable[[int], Tensor],
        drop: Callable[[int], int | None] = lambda h: None,
    ) -> LocalRound:
        """The inner steps of one global step, from the anchor; the result is in `state`.

        steps: int[S]; stage s takes part in the inner steps h < steps[s].
        first: inner steps of the job before this global step.
        batch: the sequences of inner step h, int64[batch, time + 1].
        drop: the inner stage to leave out of inner step h, if it is live; None: none.

        Raises NonFiniteLoss, before the step that would have spoiled the parameters.
        """
        self.count_anew()
        with torch.no_grad():
            for flat, theta in zip(self.pipeline.flat, anchor, strict=True):
                flat.copy_(theta)
        for h in range(int(steps.max(initial=0))):
            live = [int(s) for s in np.flatnonzero(steps > h)]
            self._set_learning_rate(learning_rate(self.inner, first + h, self.total))
            sequences, left_out = batch(h), drop(h)
            if left_out in live:
                self._round.drop(live, left_out, predicted(sequences))
                live = [s for s in live if s != left_out]
            what = self._inner_step(sequences, live)
            if what is not None:
                raise NonFiniteLoss(what, global_step, h, self.index)
        if not all(bool(flat.isfinite().all()) for flat in self.pipeline.flat):
            raise NonFiniteLoss("parameter", global_step, int(steps.max()) - 1, self.index)
        return self._round

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _inner_step(self, sequences: Tensor, live: list[int]) -> str | None:
        """One AdamW step through the live stages; says what was not finite, if anything."""
        for parameter in self._parameters:
            parameter.grad = None
        with self.precision():
            loss = self.pipeline.loss(sequences, live, self._round.hops)
        nats = loss.item()
        if not math.isfinite(nats):
            return "loss"
        torch.autograd.backward(loss)
        if not math.isfinite(self._clip()):
            return "gradient"
        self.optimizer.step()
        tokens = predicted(sequences)
        self._round.tokens += tokens
        self._round.nats += nats * tokens
        return None

    def _clip(self) -> float:
        """Scale the gradients of the live stages, taken as one vector, to norm `clip` at most."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if norm > self.inner.clip:
            torch._foreach_mul_(gradients, self.inner.clip / norm)
        return norm


def predicted(sequences: Tensor) -> int:
    """Tokens that a loss over sequences, int64[batch, time + 1], is about."""
    return sequences.shape[0] * (sequences.shape[1] - 1)
