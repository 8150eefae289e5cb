"""The record of a run: one flat row a global step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from scenarios.schema import Scenario
from scenarios.strict_json import dumps
from sim.job import Job
from sim.records import CLASSES, GlobalStep
from trainer import sizes as trainer_sizes

if TYPE_CHECKING:
    from trainer.results import Evaluation, StepResult

Row = dict[str, Any]


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


# --- files ----------------------------------------------------------------------------------


class LiveRecord:
    """metrics.jsonl of a run that goes on: what was known before at once, then row by row.

    Use as a context; it is there whole in the end, or as far as the run came. The rows are written
    aside until the first new one, so that a run that is played again breaks nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_name(f".{path.name}")  # the run's folder is locked
        self._is_aside = True
        self._file: TextIO | None = None

    def add(self, row: Row, is_new: bool) -> None:
        """A global step is finished; a reader wants to see a new one now."""
        self._open.write(dumps(row) + "\n")
        if is_new:
            self._open.flush()
            self._show()

    def __enter__(self) -> LiveRecord:
        self._file = self._aside.open("w", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._open.close()
            if error is None:
                self._show()
        finally:
            self._aside.unlink(missing_ok=True)

    @property
    def _open(self) -> TextIO:
        assert self._file is not None, "used as a context"
        return self._file

    def _show(self) -> None:
        if self._is_aside:
            os.replace(self._aside, self._path)
            self._is_aside = False


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of metrics.jsonl; a last line that a kill cut short is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for index, line in enumerate(file):
            try:
                row = json.loads(line)
            except ValueError:
                return
            if not isinstance(row, dict) or row.get("global_step") != index:
                return
            yield row
