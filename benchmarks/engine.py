"""How fast the engine is, beside its goals.

    python benchmarks/engine.py [--quick]

`quiet`: nothing breaks. `noisy`: the regime `ordinary-spot`, with global steps of one minute or of
ten: what a noisy round costs goes with the losses in it. Rounds and events (losses and returns) a
second of processor time, one process; every round is read, nothing is written. Last the memory that
Python objects take at most, in a short run and in one ten times as long: they should be equal.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from dataclasses import dataclass

from scenarios.derive import job_config
from scenarios.schema import Scenario
from sim.job import Job

STAGES = 4
QUIET_GOAL_PER_S = 50_000
NOISY_GOAL_S = 10.0
MEMORY_ROUNDS = 300, 3_000


@dataclass(frozen=True)
class Timed:
    """One run."""

    workers: int
    minutes: int
    """Of a global step; 0: quiet."""
    rounds: int
    events: int
    seconds: float

    def line(self) -> str:
        kind = f"noisy, {self.minutes} min" if self.minutes else "quiet"
        return (
            f"{kind:<13} {self.workers:>6,} workers {self.rounds:>9,} rounds "
            f"{self.seconds:>7.2f} s {self.rounds / self.seconds:>11,.0f} rounds/s "
            f"{self.events / self.seconds:>11,.0f} events/s"
        )


def scenario(workers: int, minutes: int, rounds: int) -> Scenario:
    """Slots for all workers, global steps of about so many minutes."""
    is_noisy = minutes > 0
    forward_s = 0.2 * max(minutes, 1)
    return Scenario.model_validate(
        {
            "name": "engine",
            "train": None,
            "global_steps": rounds,
            "cluster": {"replicas": workers // STAGES, "stages": STAGES},
            "outages": {"kind": "pools" if is_noisy else "none"},
            "pools": {"p": {"regime": "ordinary-spot", "detect_s": 15.0} if is_noisy else {}},
            "method": {"inner_steps": 20, "outer": {"name": "sparseloco", "density": 1e-4}},
            "work": {
                "model": "tiny",
                "sequences": 8,
                "stage_seconds": {"forward_s": forward_s, "backward_s": 2 * forward_s},
            },
        }
    )


def play(workers: int, minutes: int, rounds: int) -> Timed:
    """Play a scenario; time everything but its loading."""
    config = job_config(scenario(workers, minutes, rounds))
    begun_s = time.process_time()
    job = Job(config)
    played = ended = 0
    for step in job.global_steps():
        played, ended = played + 1, ended + len(step.spells)
    seconds = time.process_time() - begun_s
    events = 2 * ended + len(job.rest()[1])
    return Timed(workers, minutes, played, events, seconds)


def peak_bytes(workers: int, minutes: int, rounds: int) -> int:
    """What Python objects take at most while a scenario is played."""
    config = job_config(scenario(workers, minutes, rounds))
    tracemalloc.start()
    for _ in Job(config).global_steps():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    share = 0.1 if "--quick" in sys.argv else 1.0
    found: dict[tuple[int, int], Timed] = {}
    for workers, quiet, noisy in (
        (32, 100_000, 10_000),
        (1_000, 50_000, 1_000),
        (10_000, 20_000, 1_000),
    ):
        for minutes, rounds in ((0, quiet), (1, noisy), (10, noisy // 10)):
            found[workers, minutes] = timed = play(workers, minutes, round(share * rounds))
            print(timed.line(), flush=True)
    quiet_per_s = found[32, 0].rounds / found[32, 0].seconds
    print(f"goal {QUIET_GOAL_PER_S:,} quiet rounds/s at 32 workers: {quiet_per_s:,.0f}")
    for minutes in (1, 10):
        timed = found[10_000, minutes]
        noisy_s = timed.seconds * 1000 / timed.rounds
        goal = f"goal 10,000 workers x 1,000 rounds of {minutes} min in ordinary-spot"
        print(f"{goal} within {NOISY_GOAL_S:.0f} s: {noisy_s:.1f} s")
    peaks = [f"{peak_bytes(32, 1, rounds) / 1e6:.2f} MB in {rounds:,}" for rounds in MEMORY_ROUNDS]
    print(f"memory, 32 workers, rounds of 1 min: {', '.join(peaks)}")


if __name__ == "__main__":
    main()
