"""What one process does of a global step, on the state that all processes of a run share."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import deterministic

from trainer.boundary import Codec, codec, of_replica
from trainer.config import Method, Train
from trainer.data import Corpus
from trainer.directive import Directive
from trainer.memory import EVALUATION_SEQUENCES
from trainer.model import Pipeline
from trainer.outer import Counts, OuterMethod, outer_method
from trainer.randomness import Purpose, generator
from trainer.replica import LocalRound, NonFiniteLoss, Replica
from trainer.shared import Cutter, Memory, Shipped
from trainer.side_by_side import SideBySide
from trainer.state import State, bind, lay_out

CPU = torch.device("cpu")
SIDE_BY_SIDE_UP_TO_D = 512
"""Width up to which replicas are trained side by side on a GPU, since one alone leaves it idle.
Assumed; `benchmarks/gpu.py` measures it."""


def setup_torch(threads: int = 1) -> None:
    """Make torch reproducible and choose its threads: once per process, before a Trainer.

    Second moments of rare tokens decay into denormal numbers, which are slow; they become zero.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True)
    # cuBLAS is reproducible with this, and torch insists on it
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # it would write NaN over every fresh tensor, to catch reads that we do not make
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined] # not in stubs


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch had no memory to give: for a GPU it has a class of error, else only words."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


class DeviceError(ValueError):
    """A device that is not there."""


def device_of(choice: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device that `train.device` means here. Raises DeviceError."""
    if choice == "cpu" or (choice == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise DeviceError(
            f"train.device is cuda, but torch {torch.__version__} sees no GPU here: "
            "say auto or cpu, or install a CUDA build of torch"
        )
    return torch.device("cuda")


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained, in full: equal jobs and Directives give equal bits."""

    train: Train
    method: Method
    replicas: int
    stages: int
    global_steps: int
    seed: int
    corpus: Corpus


class Part(NamedTuple):
    """A part of an evaluation: some held-out sequences through some stages."""

    live: tuple[int, ...]
    first: int


class Worker:
    """One process's hands. Which of them does what changes no bit of the result.

    memory: holds the state, on the CPU, where processes share it; None: the state is made, on a
        given device.
    links: the codec of each replica. is_side_by_side: replicas that do the same share products.
    """

    def __init__(
        self,
        job: Job,
        memory: Memory | None = None,
        device: torch.device = CPU,
    ) -> None:
        if job.train.stage_drop and job.stages < 3:
            raise ValueError(f"stage_drop needs an inner stage (got {job.stages} stages)")
        self.job = job
        self._seq = job.train.shape().seq
        self.device = device
        shape, stages = job.train.shape(), job.stages
        total = job.method.inner_steps * job.global_steps
        with device:  # fresh tensors lie there
            link = codec(
                shape, job.method.boundary, stages, job.seed, rescale=job.train.rescale_survivors
            )
            self.model = Pipeline(shape, stages, link)
            self.replica = Replica(shape, stages, job.train.inner, link, total)
        self.is_side_by_side = (
            device.type == "cuda" and shape.d <= SIDE_BY_SIDE_UP_TO_D and not job.train.stage_drop
        )
        self.links: list[Codec] = [
            of_replica(link, shape, job.method.boundary, r) for r in range(job.replicas)
        ]
        self.shapes = self.model.shapes
        self.outer = outer_method(job.method.outer, [])  # to remember and to forget only
        rows = len(self.outer.init([torch.empty(0)] * stages, job.replicas))
        place = partial(lay_out, shapes=self.shapes, replicas=job.replicas, rows=rows)
        if memory is None and device.type == "cpu":
            wanted = Cutter()
            place(wanted)
            memory = Memory(wanted.nbytes)
        self.memory = memory
        self.state: State = place(
            partial(torch.zeros, device=device) if memory is None else Cutter(memory)
        )
        bind(self.model, self.state.anchor)
        held_out = job.corpus.held_out(job.train.eval_sequences, shape.seq)
        self.held_out = torch.from_numpy(held_out).to(device)
        self._stage_outer = cache(self._make_stage_outer)

    @staticmethod
    def join(job: Shipped, memory: Memory, threads: int) -> Worker:
        """Another process's hands."""
        setup_torch(threads)
        return Worker(job.open(), memory)

    def train(self, told: Directive, replicas: Sequence[int]) -> list[LocalRound]:
        """The inner steps of some replicas. Raises NonFiniteLoss of the first that has one."""
        rounds: dict[int, LocalRound] = {}
        for alike in self._alike(told, replicas):
            begun = told.steps[alike[0]], told.index, told.index * self.job.method.inner_steps
            self.replica.take(alike[0], self.state.replicas[alike[0]], self.links[alike[0]])
            if len(alike) > 1:
                states = {r: self.state.replicas[r] for r in alike}
                batch = partial(self._batch, told.index)
                done = self._side_by_side.train(self.state.anchor, states, *begun, batch)
                rounds |= zip(alike, done, strict=True)
            else:
                (r,) = alike
                batch_of = partial(self._batch, told.index, r)
                drop = partial(self._drop, r, told.index)
                rounds[r] = self.replica.train(self.state.anchor, *begun, batch_of, drop)
        return [rounds[r] for r in replicas]

    @cached_property
    def _side_by_side(self) -> SideBySide:
        return SideBySide(self.replica)

    def _alike(self, told: Directive, replicas: Sequence[int]) -> list[list[int]]:
        """Replicas that are trained together: each alone, or those with equal steps and codec."""
        groups: dict[Hashable, list[int]] = {}
        for r in replicas:
            together = (told.steps[r].tobytes(), self.job.method.boundary.compresses(r))
            groups.setdefault(together if self.is_side_by_side else r, []).append(r)
        return list(groups.values())

    def agree(self, sends: NDArray[np.bool_], index: int, stages: Sequence[int]) -> list[Counts]:
        """The outer step of some stages; `state.fresh` is their next anchor.

        The step of one stage looks at no other stage. sends: bool[R, S].

        Raises NonFiniteLoss.
        """
        counts = []
        for s in stages:
            state = self.state
            (theta,), memory, sent = self._stage_outer(s).step(
                [state.anchor[s]],
                [[replica.local[s]] for replica in state.replicas],
                sends[:, s : s + 1],
                [[row[s]] for row in state.memory],
            )
            if not bool(theta.isfinite().all()):
                raise NonFiniteLoss("anchor", index, self.job.method.inner_steps - 1, None)
            state.fresh[s].copy_(theta)
            for row, (remembered,) in zip(state.memory, memory, strict=True):
                if remembered is not row[s]:
                    row[s].copy_(remembered)
            counts.append(sent)
        return counts

    @torch.no_grad()
    def evaluate(self, parts: Sequence[Part]) -> list[float]:
        """Nats of each part of an evaluation of the anchor, summed over its sequences."""
        nats = []
        for live, first in parts:
            sequences = self.held_out[first : first + EVALUATION_SEQUENCES]
            with self.replica.precision():
                loss = self.model.loss(sequences, live)
            nats.append(loss.item() * len(sequences))
        return nats

    def _drop(self, replica: int, global_step: int, inner_step: int) -> int | None:
        """The inner stage that `stage_drop` leaves out of an inner step; of all inner ones, so
        that outages re-deal no draw, and for a smaller chance a subset of the steps."""
        chance = self.job.train.stage_drop
        if not chance:
            return None
        stream = generator(self.job.seed, Purpose.DROP, replica, global_step, inner_step)
        stage = int(stream.integers(1, self.job.stages - 1))
        return stage if stream.random() < chance else None

    def _make_stage_outer(self, stage: int) -> OuterMethod:
        with self.device:
            return outer_method(self.job.method.outer, [self.shapes[stage]])

    def _batch(self, global_step: int, replica: int, inner_step: int) -> Tensor:
        sequences = self.job.corpus.batch(
            self.job.train.inner.sequences,
            self._seq,
            seed=self.job.seed,
            replica=replica,
            global_step=global_step,
            inner_step=inner_step,
        )
        return torch.from_numpy(sequences).to(self.device)
