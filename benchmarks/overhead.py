"""What stageout's training costs beside a bare PyTorch loop, and how it scales over processes.

    python benchmarks/overhead.py [--model tiny] [--rounds 9]

All take turns in one run, round by round, so that whatever else the machine does slows all of
them, and what is compared are medians of ratios. A round is R replicas x H inner steps. The bare
loop is an ordinary nn.Module, clip_grad_norm_ and fused AdamW on random batches of the same
corpus: no stages, masks, counters, checks or outer step; over the same processes as ours.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.config import PRESETS, Method, Model, Train
from trainer.directive import Directive
from trainer.loop import Trainer, setup_torch
from trainer.model import NORM_EPS, rope_table
from trainer.shared import Shipped
from trainer.workers import Crew

REPLICAS, STAGES = 8, 4
TARGETS = {"ours / bare": 0.9, "2 processes / 1": 1.6, "outer": 0.05}


class Block(nn.Module):
    """A decoder block as one writes it."""

    def __init__(self, m: Model) -> None:
        super().__init__()
        self.heads = m.heads
        self.norm1, self.norm2 = nn.RMSNorm(m.d, NORM_EPS), nn.RMSNorm(m.d, NORM_EPS)
        self.qkv, self.o = nn.Linear(m.d, 3 * m.d, bias=False), nn.Linear(m.d, m.d, bias=False)
        self.gate, self.up = nn.Linear(m.d, m.ffn, bias=False), nn.Linear(m.d, m.ffn, bias=False)
        self.down = nn.Linear(m.ffn, m.d, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: [batch, time, d]."""
        batch, seq, d = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (z.view(batch, seq, self.heads, -1).transpose(1, 2) for z in parts)
        half = q.shape[-1] // 2
        q, k = (z * cos + torch.cat([z[..., half:], z[..., :half]], -1) * sin for z in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, seq, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Bare(nn.Module):
    """The model in one piece, and its training loop."""

    def __init__(self, train: Train, text: Tensor) -> None:
        super().__init__()
        m = train.shape()
        self.embed = nn.Embedding(m.vocab, m.d)
        self.blocks = nn.ModuleList(Block(m) for _ in range(m.layers))
        self.norm, self.head = nn.RMSNorm(m.d, NORM_EPS), nn.Linear(m.d, m.vocab, bias=False)
        table = rope_table(m)[:, :, 0, 0]  # the same angles
        self.register_buffer("cos", table[0])
        self.register_buffer("sin", table[1])
        self.text, self.seq, self.sequences = text, m.seq, train.inner.sequences
        self.optimizer = torch.optim.AdamW(self.parameters(), train.inner.lr, fused=True)

    @staticmethod
    def join(shipped: Shipped, threads: int) -> Bare:
        """In another process."""
        setup_torch(threads)
        train, text = shipped.open()
        return Bare(train, torch.from_numpy(text))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, time, vocab]."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))

    def steps(self, counts: list[int]) -> list[float]:
        """So many inner steps, one count a replica."""
        losses = []
        for _ in range(sum(counts)):
            starts = torch.randint(len(self.text) - self.seq - 1, (self.sequences,)).tolist()
            tokens = torch.stack([self.text[i : i + self.seq + 1] for i in starts])
            logits = self(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            self.optimizer.step()
            losses.append(loss.item())
        return losses


class Ours:
    """A trainer over so many processes, a round at a time."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        steps = np.full((REPLICAS, STAGES), trainer.method.inner_steps, np.int32)
        self._told = (steps, steps > 0, np.zeros_like(steps, dtype=np.int8))

    def round(self) -> None:
        """One global step, committed."""
        self.trainer.step(Directive(self.trainer.committed, *self._told))


@contextmanager
def timed(owner: Any, name: str, spent_s: dict[str, float], what: str) -> Iterator[None]:
    """Add up the seconds that calls of a function take."""
    function = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        spent_s[what] = spent_s.get(what, 0.0) + time.perf_counter() - begin
        return result

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, function)


def seconds(do: Callable[[], object]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    do()
    return time.perf_counter() - begin


def parts_of_a_round(ours: Ours, rounds: int) -> dict[str, float]:
    """Share of each part of a round in one process."""
    spent_s: dict[str, float] = {}
    worker = ours.trainer.worker
    with ExitStack() as stack:
        for owner, name, what in (
            (worker, "_batch", "batches"),
            (worker.replica.pipeline, "loss", "forward"),
            (torch.autograd, "backward", "backward"),
            (worker.replica, "_clip", "clip"),
            (worker.replica.optimizer, "step", "AdamW"),
            (ours.trainer, "_agree", "outer step"),
        ):
            stack.enter_context(timed(owner, name, spent_s, what))
        total_s = sum(seconds(ours.round) for _ in range(rounds))
    spent_s["rest"] = total_s - sum(spent_s.values())
    return {what: spent / total_s for what, spent in spent_s.items()}


def verdict(name: str, value: float, target: float, at_most: bool = False) -> None:
    """A line with a ratio and whether it is good enough."""
    good = value <= target if at_most else value >= target
    bound = "at most" if at_most else "at least"
    print(f"{name:<44} {value:6.3f}   {bound} {target}  {'ok' if good else 'MISSED'}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny", choices=sorted(PRESETS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--inner-steps", type=int, default=15)
    options = parser.parse_args()
    setup_torch(1)
    train = Train.model_validate({"model": options.model})
    method = Method(inner_steps=options.inner_steps)
    tokens = REPLICAS * method.inner_steps * train.inner.sequences * train.shape().seq

    counts = [method.inner_steps] * REPLICAS
    with ExitStack() as stack:
        turns: dict[str, Callable[[], object]] = {}
        for processes in (1, 2):
            trainer = Trainer(train, method, REPLICAS, STAGES, 1000, 0)
            stack.enter_context(trainer)
            text = trainer.corpus.tokens.train.astype(np.int64)
            crew: Crew[Bare] = Crew(
                Bare(train, torch.from_numpy(text)),
                lambda text=text: partial(Bare.join, Shipped((train, text)), 1),
            )
            stack.callback(crew.close)
            trainer.use(processes)
            crew.grow(processes)
            trainer.crew.wait()
            crew.wait()
            ours = Ours(trainer)
            if processes == 1:
                alone = ours
            turns[f"bare, {processes}"] = lambda crew=crew: crew.split(
                Bare.steps, counts, lambda mine: ([counts[r] for r in mine],), "trained"
            )
            turns[f"ours, {processes}"] = ours.round
        took: dict[str, list[float]] = {name: [] for name in turns}
        load = os.getloadavg()[0]
        for number in range(options.rounds + 1):
            for name, turn in turns.items():
                spent = seconds(turn)
                if number:  # the first warms up
                    took[name].append(spent)
        parts = parts_of_a_round(alone, options.rounds)

    def ratio(one: str, other: str) -> float:
        return median(a / b for a, b in zip(took[one], took[other], strict=True))

    print(
        f"{options.model}: {REPLICAS} replicas x {method.inner_steps} inner steps x "
        f"{train.inner.sequences} x {train.shape().seq} tokens; {os.cpu_count()} cores, "
        f"load {load:.1f} before"
    )
    for name, all_s in took.items():
        print(f"  {name} process(es): {tokens / median(all_s):10,.0f} tokens/s")
    print("  a round in one process: " + ", ".join(f"{k} {v:.1%}" for k, v in parts.items()))
    for processes in (1, 2):
        name = f"ours / bare, tokens/s, {processes} process(es)"
        verdict(name, ratio(f"bare, {processes}", f"ours, {processes}"), TARGETS["ours / bare"])
    verdict("2 processes / 1, ours", ratio("ours, 1", "ours, 2"), TARGETS["2 processes / 1"])
    most = ratio("bare, 1", "bare, 2")
    print(f"{'2 processes / 1, bare':<44} {most:6.3f}   what the machine gives now")
    verdict("outer step's share of a round", parts["outer step"], TARGETS["outer"], at_most=True)


if __name__ == "__main__":
    main()
