"""The trainer: told Directives, it trains replicas, lets them agree, evaluates, saves, goes on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainer import checkpoint
from trainer.config import Method, Train
from trainer.data import load_corpus
from trainer.directive import Directive
from trainer.memory import EVALUATION_SEQUENCES
from trainer.model import initialise
from trainer.outer import Counts
from trainer.replica import LocalRound, NonFiniteLoss
from trainer.results import Evaluation, StepResult
from trainer.shared import Shipped
from trainer.sizes import forward_flops_per_token
from trainer.state import ReplicaState
from trainer.work import (
    Job,
    Part,
    Worker,
    device_of,
    setup_torch,
)
from trainer.workers import Crew

NEW_WORKER = 2
"""In `joins`; 1 is the same worker."""

__all__ = ["Evaluation", "StepResult", "Trainer", "setup_torch"]


class Trainer:
    """Real training of `replicas` copies of a model cut into `stages`.

    global_steps: length of the job, on which the learning-rate schedule depends.
    root: where relative data paths start.

    This process does all the work until `use` brings others in; results are the same bits for any
    number of them. Use as a context, or `close` it, to end them.

    Raises ValueError when there are fewer layers than stages or no inner stage to drop, DeviceError
    for want of a GPU, CorpusError for want of text.
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
        self.corpus = load_corpus(train.data, root, train.shape().seq, replicas)
        job = Job(train, method, replicas, stages, global_steps, seed, self.corpus)
        worker = Worker(job, device=device_of(train.device))
        self._held_out_bytes = self.corpus.bytes_predicted(worker.held_out.cpu().numpy())
        self.worker, self.state, self.model = worker, worker.state, worker.model
        initialise(self.model, seed, train.shape().layers, train.jitter)
        for row, new in zip(
            self.state.memory, worker.outer.init(self.state.anchor, replicas), strict=True
        ):
            _copy(row, new)

        self._shipped = shipped = cache(lambda: Shipped(job))

        def recruit() -> partial[Worker]:
            assert worker.memory is not None, "`use` has looked"
            return partial(Worker.join, shipped(), worker.memory, torch.get_num_threads())

        self.crew = Crew(worker, recruit)
        self._flops = np.array(forward_flops_per_token(train.shape(), stages, method.boundary))
        self._whole = True  # False from the start of a global step until it is committed

    def use(self, processes: int) -> None:
        """Work with so many processes, this one counted in, but with no more than replicas.

        It returns at once; others take part as soon as they are up. There are never fewer than
        before. Where memory cannot be shared, a GPU's included, there is this one.
        """
        wanted, memory = min(processes, len(self.state.replicas)), self.worker.memory
        if wanted > 1 and memory is not None and memory.is_shared and self._shipped().is_shared:
            self.crew.grow(wanted)

    def close(self) -> None:
        """End the other processes."""
        self.crew.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def step(self, directive: Directive) -> StepResult:
        """Train one global step and commit it.

        Raises NonFiniteLoss, or WorkerDied; the anchor is then still that of the last committed
        step, but what else there is may not be, so that the trainer refuses to go on or to be
        saved until `load`.
        """
        self._check_whole()
        self._check(directive)
        self._whole = False
        self._join(directive)
        rounds = self._train(directive)
        sent = self._agree(directive)
        _copy(self.state.anchor, self.state.fresh)
        self.committed += 1
        self._whole = True
        return StepResult.of(rounds, sent)

    def evaluate(self) -> Evaluation:
        """The anchor on the held-out sequences, whole and with each inner stage skipped.

        Raises NonFiniteLoss: weights may be finite that no loss can be computed with. WorkerDied.
        """
        stages = range(len(self.state.anchor))
        lives = [tuple(s for s in stages if s != skipped) for skipped in (None, *stages[1:-1])]
        count = len(self.worker.held_out)
        parts = [Part(live, at) for live in lives for at in range(0, count, EVALUATION_SEQUENCES)]
        nats: list[float] = self.crew.split(
            Worker.evaluate,
            [len(part.live) for part in parts],
            lambda mine: ([parts[i] for i in mine],),
            "evaluated sequences",
        )
        each = len(parts) // len(lives)
        losses = [math.fsum(nats[i : i + each]) / count for i in range(0, len(parts), each)]
        if not all(map(math.isfinite, losses)):
            last = self.method.inner_steps - 1
            raise NonFiniteLoss("validation loss", self.committed - 1, last, None)
        predicted = self.worker.held_out[:, 1:].numel()
        return Evaluation(
            val_loss=losses[0],
            val_bits_per_byte=losses[0] * predicted / math.log(2) / self._held_out_bytes,
            skip_stage_loss=dict(zip(stages[1:-1], losses[1:], strict=True)),
        )

    def anchor_sha256(self) -> str:
        """Fingerprint of the anchor's bits."""
        digest = hashlib.sha256()
        for flat in self.state.anchor:
            digest.update(flat.cpu().numpy().tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the state after the last committed global step into an existing, empty folder."""
        self._check_whole()
        checkpoint.write(folder, self._identity(), self.committed, self._parts())

    def load(self, folder: Path, nobody_has_joined: bool = False) -> None:
        """Go on from where `save` was called, to the same bits. Raises CheckpointError, and
        then nothing has changed.

        nobody_has_joined: no slot had, so that the state may be that of a run with another
        `on_return`.
        """
        self.crew.settle()  # else a process would still write to what is loaded
        identity = self._identity()
        if nobody_has_joined:
            del identity["on_return"]
        self.committed = checkpoint.read(folder, identity, self._parts())
        self._whole = True

    # --- the parts of a global step -----------------------------------------------------------

    def _join(self, directive: Directive) -> None:
        """Give slots that join what `on_return` says; the parameters are the anchor's anyhow."""
        joins, keep = directive.joins, self.train.on_return
        is_new = joins == NEW_WORKER
        for r, s in np.argwhere(is_new if keep.adam == "keep" else joins > 0):
            peer = self._peer(directive, s) if keep.adam == "peer" else None
            if peer is None:
                self.state.replicas[r].forget(s)
            else:
                self.state.replicas[r].remember(s, peer)
        forgets = is_new if keep.error_feedback == "keep" else joins > 0
        memory = self.worker.outer.join(self.state.memory, forgets)
        for row, new in zip(self.state.memory, memory, strict=True):
            _copy(row, new)

    def _peer(self, directive: Directive, stage: int) -> ReplicaState | None:
        """The first replica that works on the stage in this round, has not just joined it itself,
        and has trained it."""
        for r, replica in enumerate(self.state.replicas):
            works = directive.steps[r, stage] > 0 and directive.joins[r, stage] == 0
            if works and replica.has_trained(stage):
                return replica
        return None

    def _train(self, directive: Directive) -> list[LocalRound]:
        return self.crew.split(
            Worker.train,
            list(directive.steps @ self._flops),
            lambda mine: (directive, mine),
            "trained replicas",
        )

    def _agree(self, directive: Directive) -> list[Counts]:
        return self.crew.split(
            Worker.agree,
            [theta.numel() for theta in self.state.anchor],
            lambda mine: (directive.sends, directive.index, mine),
            "made the outer step of stages",
        )

    def _check(self, directive: Directive) -> None:
        """Raise ValueError where a directive cannot be carried out; the caller has a bug."""
        steps, most = directive.steps, directive.steps.max(axis=1)
        if directive.index != self.committed or directive.index >= self.global_steps:
            raise ValueError(
                f"global step {directive.index} cannot follow {self.committed} committed ones "
                f"of {self.global_steps}"
            )
        if steps.shape != (len(self.state.replicas), len(self.state.anchor)):
            raise ValueError(f"a directive of shape {steps.shape} is not for this trainer")
        if steps.min() < 0 or steps.max() > self.method.inner_steps:
            raise ValueError(f"steps must lie in 0..{self.method.inner_steps} (got {steps})")
        if (steps[:, 0] != most).any() or (steps[:, -1] != most).any():
            raise ValueError(f"only inner stages can be skipped (got steps {steps})")

    def _check_whole(self) -> None:
        if not self._whole:
            raise RuntimeError("the last global step was not committed: load a checkpoint first")

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in to be continued; JSON-ready."""
        facts = self.corpus.facts()
        return {
            "model": self.train.shape().model_dump(mode="json"),
            "inner": self.train.inner.model_dump(mode="json"),
            "rescale_survivors": self.train.rescale_survivors,
            "on_return": self.train.on_return.model_dump(mode="json"),
            "jitter": self.train.jitter,
            "stage_drop": self.train.stage_drop,
            "device": self.worker.device.type,
            "method": self.method.model_dump(mode="json"),
            "replicas": len(self.state.replicas),
            "stages": len(self.state.anchor),
            "global_steps": self.global_steps,
            "seed": self.seed,
            "text_sha256": facts["sha256"],
            "tokenizer_sha256": facts["tokenizer_sha256"],
            "shards": facts.get("shards"),
        }

    def _parts(self) -> checkpoint.Parts:
        """All that must be there again: the anchor, each replica's moments, and what the outer
        method remembers."""
        anchor = {
            name: tensor.detach()
            for stage in range(len(self.state.anchor))
            for name, tensor in self.model.named(stage).items()
        }
        replicas = {
            f"replica-{r}": replica.moments(self.worker.shapes)
            for r, replica in enumerate(self.state.replicas)
        }
        outer = {
            f"outer-{row}": {f"stage.{stage}": tensor for stage, tensor in enumerate(vectors)}
            for row, vectors in enumerate(self.state.memory)
        }
        return {checkpoint.MODEL: anchor, **replicas, **outer}


def _copy(vectors: Sequence[Tensor], new: Sequence[Tensor]) -> None:
    for vector, other in zip(vectors, new, strict=True):
        if other is not vector:
            vector.copy_(other)
