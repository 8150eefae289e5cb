"""What `--jobs 2` saves: wall time of a small study with two processes against one, in turn.

    python benchmarks/jobs.py [--turns 3] [--global-steps 12]

Each turn runs the same commands a user would, from nothing, in fresh folders: start-up of Python
and torch, the engine, training, figures and report are all in it. Results must be equal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TARGET = 0.6
STUDY = """\
name: jobs
extends: quickstart.yaml
global_steps: {global_steps}
sweep: {{seeds: 2}}
"""


def run(file: Path, out: Path, jobs: int) -> float:
    """Seconds of one command; its runs lie in `out`."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "scenarios", "run", file, "--jobs", str(jobs), "--out", out],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--global-steps", type=int, default=12)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "jobs.yaml"
        file.write_text(STUDY.format(global_steps=options.global_steps), "utf-8")
        for turn in range(options.turns):
            outs = {jobs: folder / f"{turn}-{jobs}" for jobs in (1, 2)}
            took = {jobs: run(file, out, jobs) for jobs, out in outs.items()}
            one, two = ((out / "jobs" / "cells.csv").read_bytes() for out in outs.values())
            assert one == two, "results depend on the number of processes"
            ratios.append(took[2] / took[1])
            print(f"turn {turn}: --jobs 1 {took[1]:.1f} s, --jobs 2 {took[2]:.1f} s", flush=True)
    value = median(ratios)
    verdict = "ok" if value <= TARGET else "MISSED"
    print(f"--jobs 2 / --jobs 1, wall time: {value:.3f}   at most {TARGET}  {verdict}")


if __name__ == "__main__":
    main()
