"""Public traces replayed: availability, loss rate, bulks and outages of a job's workers against the
trace's own, and against what was counted from the files by hand.

    python benchmarks/traces.py [DATA]

DATA holds the traces by their repositories (`bamboo/`, `parcae/`, `sailor/`, ...); every file in it
that is a trace is replayed into a job with as many slots as the trace has workers. Exit 1 where a
replay differs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from scenarios.derive import job_config
from scenarios.schema import Scenario
from scenarios.traces import read_trace
from sim.news import StalledError
from sim.traces.trace import Facts, Trace, TraceError, facts, of_spells
from sim.watched import WatchedJob

DATA = Path(__file__).parents[2] / "shared" / "data"
IN_HOURS = "p2-xlarge-2020-11-20-to"
"""One Bamboo file counts hours, and says so in its NOTE only."""
STATED = {
    "p3-trace.csv": {"bulk_share": 0.77, "losses_per_worker_hour": 0.61},
    "g4dn-trace.csv": {"losses_per_worker_hour": 0.55},
    "v100x1-east1c.txt": {"bulk_share": 0.98, "mean_bulk": 9.4, "largest_bulk": 40.0},
    "a100x1-east1b.txt": {"bulk_share": 0.91},
}
"""Counted by hand, independently of the readers; two digits."""
SHOWN = ("availability", "losses_per_worker_hour", "bulk_share", "mean_bulk", "mean_outage_h")
CLOSE = 1e-9


def traces(data: Path) -> Iterator[tuple[Path, str, Trace]]:
    """(file, unit, trace) of every file that is one and can be replayed."""
    for file in sorted(data.rglob("*")):
        unit = "h" if IN_HOURS in file.name else "s"
        try:
            trace = read_trace(file, unit) if file.is_file() else None
        except TraceError:
            continue
        if trace is not None and trace.has_outages and facts(trace).losses:
            yield file, unit, trace


def replayed(file: Path, unit: str, trace: Trace) -> Facts:
    """What a job of one slot a worker sees until the trace ends."""
    scenario = Scenario.model_validate(
        {
            "name": "replay",
            "global_steps": 10_000_000,
            "cluster": {"replicas": trace.workers, "stages": 1},
            "outages": {"kind": "trace", "path": str(file), "unit": unit, "wrap": False},
            "recovery": {"policy": ["idle"]},
            "train": None,
        }
    )
    job = WatchedJob(job_config(scenario))
    with suppress(StalledError):  # nobody is there at its end, and nobody comes
        for _ in takewhile(lambda step: step.end_s <= trace.end_s, job.global_steps()):
            pass
    zones = [worker.zone for worker in job.roster.workers]
    return facts(of_spells(job.spells(), zones, trace.end_s))


def differences(own: Facts, seen: Facts) -> list[str]:
    """Quantities in which a replay is not its trace."""
    wrong = []
    for name in (*SHOWN, "losses", "largest_bulk"):
        a, b = float(getattr(own, name)), float(getattr(seen, name))
        if not (math.isclose(a, b, rel_tol=CLOSE) or (math.isnan(a) and math.isnan(b))):
            wrong.append(f"{name} {a:.6g} against {b:.6g}")
    return wrong


def main() -> int:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    print(f"{'trace':<46}{'workers':>8}{'hours':>8}", *(f"{name[:12]:>13}" for name in SHOWN))
    failed = found = 0
    for file, unit, trace in traces(data):
        own, found = facts(trace), found + 1
        values = (f"{getattr(own, name):13.4g}" for name in SHOWN)
        print(f"{file.name[-45:]:<46}{own.workers:>8}{own.hours:>8.2f}", *values)
        for text in differences(own, replayed(file, unit, trace)):
            failed += 1
            print(f"  REPLAY DIFFERS: {text}")
        for name, stated in STATED.get(file.name, {}).items():
            value = float(getattr(own, name))
            if abs(value - stated) > 0.006 * max(1.0, stated * 10):
                failed += 1
                print(f"  STATED OTHERWISE: {name} {stated:g}, here {value:.4g}")
    print(f"{found} traces, {failed} differences")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
