"""Ten minutes on a GPU: does it train the same, how fast, in how much memory.

    python benchmarks/gpu.py [--peak-tflops 989]

1. `tiny` for some rounds on the CPU in fp32, on the GPU in fp32 and in bf16: losses side by side.
   The first must agree closely; bf16 may differ by its rounding.
2. The same on the GPU twice: the bits must be equal.
3. `small`, its replicas side by side and in turn, and `178m` in bf16: tokens/s, share of the peak
   (FLOPs by `trainer.sizes`: 2 a matrix value and token forward, twice that backward, attention
   causal), most memory.

Says so and exits 2 where torch sees no GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import torch

from trainer.config import Method, Train
from trainer.directive import Directive
from trainer.loop import Trainer, setup_torch
from trainer.sizes import forward_flops_per_token

STAGES = 4
NEAR = {"fp32": 2e-3, "bf16": 3e-2}
"""Relative difference of a round's loss from the CPU's that is no cause for worry."""


def train(
    model: str,
    device: str,
    bf16: bool,
    replicas: int,
    rounds: int,
    in_turn: bool = False,
    **more: Any,
) -> Any:
    """A trainer after so many rounds, the loss of each, and the seconds of each.

    in_turn: replicas share no product, also where they would.
    """
    spec = Train.model_validate({"model": model, "device": device, "eval_sequences": 64, **more})
    trainer = Trainer(spec, Method(inner_steps=5), replicas, STAGES, rounds, seed=0)
    trainer.worker.replica.is_bf16 = bf16
    trainer.worker.is_side_by_side &= not in_turn
    steps = np.full((replicas, STAGES), 5, np.int32)
    losses, took_s = [], []
    for g in range(rounds):
        begin = time.perf_counter()
        told = Directive(g, steps, steps > 0, np.zeros_like(steps, dtype=np.int8))
        losses.append(trainer.step(told).train_loss)
        if device == "cuda":
            torch.cuda.synchronize()
        took_s.append(time.perf_counter() - begin)
    return trainer, losses, took_s


def compare() -> bool:
    """Losses of the CPU and the GPU; whether they are near, and the GPU's equal to themselves."""
    _, expected, _ = train("tiny", "cpu", False, 4, 6)
    print("cpu  fp32  " + " ".join(f"{loss:.4f}" for loss in expected))
    good = True
    for name in NEAR:
        runs = [train("tiny", "cuda", name == "bf16", 4, 6) for _ in range(2)]
        losses = runs[0][1]
        worst = max(abs(a / b - 1) for a, b in zip(losses, expected, strict=True))
        same = runs[0][0].anchor_sha256() == runs[1][0].anchor_sha256()
        good = good and same and worst < NEAR[name]
        print(
            f"cuda {name}  "
            + " ".join(f"{loss:.4f}" for loss in losses)
            + f"  off by {worst:.1e} at most (near: {NEAR[name]}), repeats to the bit: {same}"
        )
    return good


def speed(
    model: str, replicas: int, sequences: int, peak_flops: float | None, in_turn: bool
) -> None:
    """Tokens/s and memory of one model on the GPU."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    inner = {"sequences": sequences}
    trainer, _, took_s = train(model, "cuda", True, replicas, 4, in_turn, inner=inner)
    shape = trainer.train.shape()
    tokens = replicas * 5 * sequences * shape.seq
    second_s = min(took_s[1:])  # the first one warms up
    forward = sum(forward_flops_per_token(shape, STAGES, trainer.method.boundary))
    flops_per_s = 3 * forward * tokens / second_s
    share = f", {flops_per_s / peak_flops:.1%} of the peak" if peak_flops else ""
    how = "side by side" if trainer.worker.is_side_by_side else "in turn"
    print(
        f"{model} {how}: {tokens / second_s:,.0f} tokens/s, "
        f"{flops_per_s / 1e12:.1f} TFLOP/s{share}, "
        f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB at most "
        f"({replicas} replicas x {sequences} x {shape.seq} tokens, outer step included)"
    )


def main() -> None:
    """Check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peak-tflops", type=float, help="dense bf16 peak of the GPU")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here: nothing to measure", file=sys.stderr)
        raise SystemExit(2)
    setup_torch(1)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    good = compare()
    peak = options.peak_tflops * 1e12 if options.peak_tflops else None
    for in_turn in (False, True):
        speed("small", 8, 8, peak, in_turn)
    speed("178m", 2, 8, peak, in_turn=True)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
