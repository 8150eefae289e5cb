"""The trainer: told Directives, it trains replicas one after another and lets them agree."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import deterministic

from trainer import checkpoint
from trainer.boundary import codec, of_replica
from trainer.config import Method, Train
from trainer.data import load_corpus
from trainer.directive import Directive
from trainer.model import Hop, Pipeline, initialise
from trainer.outer import outer_method
from trainer.replica import NonFiniteLoss, Replica

EVALUATION_SEQUENCES = 16
"""Held-out sequences in one forward pass; more of tiny's logits than that leave the cache."""


def setup_torch(threads: int = 1) -> None:
    """Make torch reproducible and choose its threads: once per process, before a Trainer.

    Second moments of rare tokens decay into denormal numbers, which are slow; they become zero.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True)
    # it would write NaN over every fresh tensor, to catch reads that we do not make
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined] # not in stubs


@dataclass(frozen=True, eq=False)
class StepResult:
    """What one global step did. Arrays are [replica, stage].

    train_loss: mean nats per predicted token over what took part; NaN when nobody did.
    train_tokens: tokens trained, each once however many stages it went through.
    forward_calls: forward passes of each slot, counted by hooks; evaluation apart.
    hop_tokens: tokens that went over each hop (from stage, to stage) forward, all replicas.
    kept_values: values in the upload of each slot, counted in the upload.
    code_counts: int64[4], how often each 2-bit code was sent, all slots; zeros if none are.
    """

    train_loss: float
    train_tokens: int
    forward_calls: NDArray[np.int64]
    hop_tokens: dict[Hop, int]
    kept_values: NDArray[np.int64]
    code_counts: NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """The anchor on the held-out sequences.

    val_loss: nats per token. val_bits_per_byte: the same per byte of the text predicted.
    skip_stage_loss: per inner stage, nats per token when that stage is skipped.
    """

    val_loss: float
    val_bits_per_byte: float
    skip_stage_loss: dict[int, float]


class Trainer:
    """Real training of `replicas` copies of a model cut into `stages`.

    global_steps: length of the job, on which the learning-rate schedule depends.
    root: where relative data paths start.

    Raises ValueError when there are fewer layers than stages, CorpusError for want of text.
    """

    def __init__(
        self,
        train: Train,
        method: Method,
        replicas: int,
        stages: int,
        global_steps: int,
        seed: int,
        root: Path = Path(),
    ) -> None:
        self.train = train
        self.method = method
        self.seed = seed
        self.global_steps = global_steps
        self.committed = 0
        model = train.shape()
        self._seq = model.seq
        boundary = codec(model, method.boundary, stages, seed, rescale=train.rescale_survivors)
        self.model = Pipeline(model, stages, boundary)
        initialise(self.model, seed, model.layers)
        total = method.inner_steps * global_steps
        links = [of_replica(boundary, model, method.boundary, r) for r in range(replicas)]
        self.replicas = [
            Replica(r, model, stages, train.inner, link, total) for r, link in enumerate(links)
        ]
        self.outer = outer_method(method.outer, self.model.shapes)
        self._memory = self.outer.init(self.model.flat, replicas)
        self.corpus = load_corpus(train.data, root, model.seq)
        self._held_out = torch.from_numpy(self.corpus.held_out(train.eval_sequences, model.seq))
        self._whole = True  # False from the start of a global step until it is committed

    def step(self, directive: Directive) -> StepResult:
        """Train one global step and commit it.

        Raises NonFiniteLoss; the anchor is then still that of the last committed step, but the
        moments are not, so that the trainer refuses to go on or to be saved until `load`.
        """
        self._check_whole()
        self._check(directive)
        self._whole = False
        joins = directive.joins > 0
        for r, s in np.argwhere(joins):
            self.replicas[r].join(s)
        memory = self.outer.join(self._memory, joins)
        first = directive.index * self.method.inner_steps
        rounds = [
            replica.train(
                self.model.flat,
                directive.steps[r],
                directive.index,
                first,
                partial(self._batch, r, directive.index),
            )
            for r, replica in enumerate(self.replicas)
        ]
        local = [replica.local for replica in self.replicas]
        anchor, memory, sent = self.outer.step(self.model.flat, local, directive.sends, memory)
        if not all(bool(theta.isfinite().all()) for theta in anchor):
            last = self.method.inner_steps - 1
            raise NonFiniteLoss("anchor", directive.index, last, None)
        self._commit(anchor, memory)
        tokens = sum(done.tokens for done in rounds)
        nats = math.fsum(done.nats for done in rounds)
        return StepResult(
            train_loss=nats / tokens if tokens else math.nan,
            train_tokens=tokens,
            forward_calls=np.stack([done.forward_calls for done in rounds]),
            hop_tokens=dict(sorted(sum((done.hops for done in rounds), Counter()).items())),
            kept_values=sent.kept,
            code_counts=sent.codes,
        )

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """The anchor on the held-out sequences, whole and with each inner stage skipped."""
        stages = range(len(self.model.stages))
        loss = self._held_out_loss(stages)
        predicted = self._held_out[:, 1:]
        byte_count = self.corpus.bytes_of(predicted.numpy())
        return Evaluation(
            val_loss=loss,
            val_bits_per_byte=loss * predicted.numel() / math.log(2) / byte_count,
            skip_stage_loss={
                skipped: self._held_out_loss([s for s in stages if s != skipped])
                for skipped in stages[1:-1]
            },
        )

    def anchor_sha256(self) -> str:
        """Fingerprint of the anchor's bits."""
        digest = hashlib.sha256()
        for flat in self.model.flat:
            digest.update(flat.detach().numpy().tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the state after the last committed global step into an existing, empty folder."""
        self._check_whole()
        checkpoint.write(folder, self._identity(), self.committed, self._anchor(), self._state())

    def load(self, folder: Path) -> None:
        """Go on from where `save` was called, to the same bits. Raises CheckpointError, and
        then nothing has changed."""
        self.committed, anchor, state = checkpoint.read(
            folder, self._identity(), self._anchor(), self._state()
        )
        for name, tensor in self._anchor().items():
            tensor.copy_(anchor[name])
        for r, replica in enumerate(self.replicas):
            replica.load_moments(_below(f"replica.{r}/", state))
        self._memory = [
            [state[_error_name(r, s)] for s in range(len(errors))]
            for r, errors in enumerate(self._memory)
        ]
        self._whole = True

    def _check(self, directive: Directive) -> None:
        """Raise ValueError where a directive cannot be carried out; the caller has a bug."""
        steps, most = directive.steps, directive.steps.max(axis=1)
        if directive.index != self.committed or directive.index >= self.global_steps:
            raise ValueError(
                f"global step {directive.index} cannot follow {self.committed} committed ones "
                f"of {self.global_steps}"
            )
        if steps.shape != (len(self.replicas), len(self.model.stages)):
            raise ValueError(f"a directive of shape {steps.shape} is not for this trainer")
        if steps.min() < 0 or steps.max() > self.method.inner_steps:
            raise ValueError(f"steps must lie in 0..{self.method.inner_steps} (got {steps})")
        if (steps[:, 0] != most).any() or (steps[:, -1] != most).any():
            raise ValueError(f"only inner stages can be skipped (got steps {steps})")

    def _check_whole(self) -> None:
        if not self._whole:
            raise RuntimeError("the last global step was not committed: load a checkpoint first")

    def _batch(self, replica: int, global_step: int, inner_step: int) -> Tensor:
        return torch.from_numpy(
            self.corpus.batch(
                self.train.inner.sequences,
                self._seq,
                seed=self.seed,
                replica=replica,
                global_step=global_step,
                inner_step=inner_step,
            )
        )

    def _commit(self, anchor: Sequence[Tensor], memory: list[list[Tensor]]) -> None:
        for flat, theta in zip(self.model.flat, anchor, strict=True):
            flat.copy_(theta)
        self._memory = memory
        self.committed += 1
        self._whole = True

    def _held_out_loss(self, live: Sequence[int]) -> float:
        nats = [
            self.model.loss(sequences, live).item() * len(sequences)
            for sequences in torch.split(self._held_out, EVALUATION_SEQUENCES)
        ]
        return math.fsum(nats) / len(self._held_out)

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in to be continued; JSON-ready."""
        facts = self.corpus.facts()
        return {
            "model": self.train.shape().model_dump(mode="json"),
            "inner": self.train.inner.model_dump(mode="json"),
            "rescale_survivors": self.train.rescale_survivors,
            "method": self.method.model_dump(mode="json"),
            "replicas": len(self.replicas),
            "stages": len(self.model.stages),
            "global_steps": self.global_steps,
            "seed": self.seed,
            "text_sha256": facts["sha256"],
            "tokenizer_sha256": facts["tokenizer_sha256"],
        }

    def _anchor(self) -> dict[str, Tensor]:
        return {
            name: tensor.detach()
            for stage in range(len(self.model.stages))
            for name, tensor in self.model.named(stage).items()
        }

    def _state(self) -> dict[str, Tensor]:
        moments = {
            f"replica.{r}/{name}": tensor
            for r, replica in enumerate(self.replicas)
            for name, tensor in replica.moments().items()
        }
        errors = {
            _error_name(r, s): error
            for r, stages in enumerate(self._memory)
            for s, error in enumerate(stages)
        }
        return moments | errors


def _error_name(replica: int, stage: int) -> str:
    return f"error_feedback/{replica}.{stage}"


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
