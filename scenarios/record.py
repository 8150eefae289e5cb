"""The record of a run: one flat row a global step, and the summary of them all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from analysis.crossing import first_at
from analysis.files import write_atomically
from scenarios.schema import Scenario
from sim.config import HOUR_S
from sim.job import Job
from sim.records import CLASSES, GlobalStep
from trainer import sizes as trainer_sizes

if TYPE_CHECKING:
    from trainer.results import Evaluation, StepResult

Row = dict[str, Any]

NOT_REACHED = "not reached"
"""A target loss that no evaluation came down to; nothing is extrapolated."""
NOT_JOINED = ("vacant", "provision", "restore")
"""Classes of a slot that has not joined; one that is ready counts as wait."""


class CouplingError(Exception):
    """The clock and the training disagree about who was there: a bug, never the user's fault."""


@dataclass(frozen=True)
class Expected:
    """What arithmetic says of one inner step and one upload, to check both sides against."""

    inner_steps: int
    timed_tokens: int
    """Tokens of one replica's inner step in the timed job."""
    slot_step_s: NDArray[np.float64]
    """[S] computing seconds of a slot in one inner step, at nominal speed."""
    train_tokens: int
    """Tokens of one replica's inner step in training; 0 in a timing study."""
    kept_values: NDArray[np.int64]
    """[S] values in the upload of a slot of the trained model."""

    @staticmethod
    def of(scenario: Scenario, job: Job) -> Expected:
        train, stages = scenario.train, scenario.cluster.stages
        kept: tuple[int, ...] = (0,) * stages
        if train is not None:
            kept = trainer_sizes.kept_values(train.shape(), stages, scenario.method)
        return Expected(
            inner_steps=scenario.method.inner_steps,
            timed_tokens=job.config.sizes.tokens,
            slot_step_s=job.times.compute_s(),
            train_tokens=train.inner.sequences * train.shape().seq if train else 0,
            kept_values=np.asarray(kept, dtype=np.int64),
        )


def row_of(g: GlobalStep, r: StepResult | None, seen: Evaluation | None, expected: Expected) -> Row:
    """One flat row of a global step.

    Args:
        r: what training did; None in a timing study.
        seen: the evaluation after the step, if one was due.
    """
    return {
        "global_step": g.index,
        "start_s": g.start_s,
        "end_s": g.end_s,
        "tokens": int(g.steps.max(axis=1).sum()) * expected.timed_tokens,
        "full_depth_tokens": int(g.steps.min(axis=1).sum()) * expected.timed_tokens,
        "train_tokens": r.train_tokens if r else 0,
        "slots_live": int((g.steps == expected.inner_steps).sum()),
        "slots_sending": int(g.sends.sum()),
        "replicas_sending": int(g.sends.any(axis=1).sum()),
        "boundary_bytes": g.nbytes["boundary"],
        "sync_bytes": g.nbytes["sync"],
        "restore_bytes": g.nbytes["restore"],
        "snapshot_bytes": g.nbytes["snapshot"],
        "lost_bytes": g.nbytes["lost_boundary"] + g.nbytes["lost_sync"],
        "usd_compute": g.usd["compute"],
        "usd_egress": g.usd["egress"],
        "usd_storage": g.usd["storage"],
        "train_loss": r.train_loss if r else None,
        "val_loss": seen.val_loss if seen else None,
        "val_bits_per_byte": seen.val_bits_per_byte if seen else None,
        "skip_stage_loss": list(seen.skip_stage_loss.values()) if seen else None,
        "code_histogram": r.code_counts.tolist() if r else None,
        "spare_s": g.spare_s,
        "ready_s": g.ready_s,
        "billed": {"node_s": g.billed_s, "bytes": g.link_bytes},
        "unused_s": g.unused_s,
        "stored_byte_s": g.stored_byte_s,
        **{f"{name}_s": g.slot_s[name] for name in CLASSES},
        "steps": g.steps.tolist(),
        "sends": g.sends.astype(int).tolist(),
        "joins": g.joins.tolist(),
    }


def check_coupling(g: GlobalStep, r: StepResult | None, expected: Expected) -> None:
    """Assert that clock and training agree about who was there, how much, how long.

    Raises:
        CouplingError: naming what differs.
    """
    where = f"global step {g.index}"
    slots_s = g.steps * g.slowness * expected.slot_step_s
    if not np.allclose(g.compute_s, slots_s, rtol=1e-9, atol=1e-12):
        raise CouplingError(f"{where}: computing seconds are not steps x the slot's time")
    if r is None:
        return
    if not np.array_equal(r.forward_calls + r.dropped, g.steps):
        raise CouplingError(
            f"{where}: forward calls\n{r.forward_calls}\nand dropped ones\n{r.dropped}\n"
            f"against steps\n{g.steps}"
        )
    tokens = expected.train_tokens
    crossed = {hop: count * tokens for hop, count in g.crossings.items() if count}
    if r.hop_tokens != crossed:
        raise CouplingError(f"{where}: tokens over hops {r.hop_tokens} against {crossed}")
    kept = g.sends * expected.kept_values
    if not np.array_equal(r.kept_values, kept):
        raise CouplingError(f"{where}: kept values\n{r.kept_values}\nagainst\n{kept}")
    if r.train_tokens != int(g.steps.max(axis=1).sum()) * tokens:
        raise CouplingError(f"{where}: {r.train_tokens} trained tokens do not follow from steps")


def summary_of(scenario: Scenario, rows: Sequence[Row], job: Job) -> dict[str, Any]:
    """What a run comes to; the comparison with the no-failure run is added by `compare`."""
    wall_s = rows[-1]["end_s"]
    slots = job.R * job.S
    total = {key: sum(row[key] for row in rows) for key in rows[0] if _adds_up(key)}
    slot_s = {name: total[f"{name}_s"] for name in CLASSES}
    not_joined_s = sum(slot_s[name] for name in NOT_JOINED) + total["ready_s"]
    healthy_tokens = len(rows) * job.R * job.config.inner_steps * job.config.sizes.tokens
    steps = np.array([row["steps"] for row in rows])
    usd = {key: total[f"usd_{key}"] for key in ("compute", "egress", "storage")}
    spells, workers = job.spells(), len(job.roster.hired)
    away_s = math.fsum(min(wall_s, s.back_s) - min(wall_s, s.gone_s) for s in spells)
    evaluated = [row for row in rows if row["val_loss"] is not None]
    last = evaluated[-1] if evaluated else None
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "policy": scenario.recovery.model_dump(mode="json", exclude_none=True)["policy"],
        "checkpoint": None if job.checkpoints is None else job.checkpoints.told(),
        "outages_kind": scenario.outages.kind,
        "replicas": job.R,
        "stages": job.S,
        "global_steps": len(rows),
        "is_cut": len(rows) < scenario.global_steps,
        "tokens": total["tokens"],
        "train_tokens": total["train_tokens"],
        "token_share": total["tokens"] / healthy_tokens,
        "full_depth_token_share": total["full_depth_tokens"] / healthy_tokens,
        "wall_s": wall_s,
        "tokens_per_s": total["tokens"] / wall_s,
        "ettr": len(rows) * job.healthy_s / wall_s,
        "availability": 1 - not_joined_s / (slots * wall_s),
        "worker_availability": 1 - away_s / (workers * wall_s),
        "outages": job.roster.losses,
        "bought": job.roster.on_call.bought,
        "mean_outage_s": _mean(s.back_s - s.gone_s for s in spells if s.back_s == s.back_s),
        "degraded_share": float((steps < job.config.inner_steps).any(axis=2).mean()),
        "slot_s": slot_s,
        "bytes": {
            key: total[f"{key}_bytes"]
            for key in ("boundary", "sync", "restore", "snapshot", "lost")
        },
        "billed": {
            **{what: _by_name(row["billed"][what] for row in rows) for what in ("node_s", "bytes")},
            "stored_byte_s": total["stored_byte_s"],
        },
        "usd": {**usd, "total": sum(usd.values())},
        "usd_per_million_tokens": sum(usd.values()) / total["tokens"] * 1e6,
        "val_loss": last and last["val_loss"],
        "val_bits_per_byte": last and last["val_bits_per_byte"],
        "val_global_step": last and last["global_step"],
        "to_target": _to_target(scenario.target.val_loss, rows),
        "skip_stage_loss": last and _by_stage(last["skip_stage_loss"]),
        "proxy": scenario.is_proxy,
    }


def _to_target(loss: float | None, rows: Sequence[Row]) -> dict[str, float] | str | None:
    """What it took to come to the loss, interpolated between evaluations; None: none is asked."""
    if loss is None:
        return None
    seen = [i for i, row in enumerate(rows) if row["val_loss"] is not None]
    found = first_at([rows[i]["val_loss"] for i in seen], loss)
    if found is None:
        return NOT_REACHED
    k, part = found
    after, before = (_totals(rows[: seen[i] + 1]) for i in (k, max(0, k - 1)))
    between = {key: before[key] + part * (after[key] - before[key]) for key in after}
    return {"val_loss": loss, **between} | ({"or_sooner": True} if k == 0 else {})


def _totals(rows: Sequence[Row]) -> dict[str, float]:
    return {
        "global_steps": len(rows),
        "train_tokens": sum(row["train_tokens"] for row in rows),
        "hours": rows[-1]["end_s"] / HOUR_S,
        "usd": sum(row[key] for row in rows for key in row if key.startswith("usd_")),
    }


def compare(summary: dict[str, Any], healthy: Sequence[Row]) -> dict[str, Any]:
    """The summary with the loss of the no-failure run at the last evaluated global step."""
    at = summary["val_global_step"]
    other = next((row["val_loss"] for row in healthy if row["global_step"] == at), None)
    gap = None if at is None or other is None else summary["val_loss"] - other
    return summary | {"val_loss_no_failure": other, "val_loss_gap": gap}


def _adds_up(key: str) -> bool:
    return (key.endswith(("_s", "_bytes", "tokens")) and key not in ("start_s", "end_s")) or (
        key.startswith("usd_")
    )


def _by_name(maps: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sums of the values of many maps, name by name."""
    found: dict[str, float] = {}
    for each in maps:
        for name, value in each.items():
            found[name] = found.get(name, 0) + value
    return found


def _by_stage(losses: Sequence[float]) -> dict[str, float]:
    """Losses with an inner stage skipped, by stage; inner stages start at 1."""
    return {str(stage): loss for stage, loss in enumerate(losses, start=1)}


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


# --- files ----------------------------------------------------------------------------------


def dumps(value: Mapping[str, Any]) -> str:
    """One line of strict JSON: no NaN."""
    return json.dumps(value, allow_nan=False)


class LiveRecord:
    """metrics.jsonl of a run that goes on: what was known before at once, then row by row.

    Use as a context; it is there whole in the end, or as far as the run came.
    """

    def __init__(self, path: Path) -> None:
        self.rows: list[Row] = []
        self._path = path
        self._file: TextIO | None = None

    def add(self, row: Row, is_new: bool) -> None:
        """A global step is finished; a reader wants to see a new one now."""
        self.rows.append(row)
        if self._file is not None:
            self._file.write(dumps(row) + "\n")
            self._file.flush()
        elif is_new:
            self._write()
            self._file = self._path.open("a", encoding="utf-8")

    def __enter__(self) -> LiveRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        elif error is None:
            self._write()

    def _write(self) -> None:
        write_atomically(self._path, "".join(dumps(row) + "\n" for row in self.rows))


def read_rows(path: Path) -> list[Row]:
    """Rows of metrics.jsonl; a last line that a kill cut short is left out."""
    rows: list[Row] = []
    if path.exists():
        for line in path.read_bytes().split(b"\n"):
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not isinstance(row, dict) or row.get("global_step") != len(rows):
                break
            rows.append(row)
    return rows
