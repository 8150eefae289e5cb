"""The Parquet files of a run folder: columns and writers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.files import aside
from scenarios.record import Row
from sim.job import Job
from sim.records import CLASSES

_NUMBERS = {
    "global_step": pa.int64(),
    "start_s": pa.float64(),
    "end_s": pa.float64(),
    "tokens": pa.int64(),
    "full_depth_tokens": pa.int64(),
    "train_tokens": pa.int64(),
    "slots_live": pa.int64(),
    "slots_sending": pa.int64(),
    "replicas_sending": pa.int64(),
    "boundary_bytes": pa.int64(),
    "sync_bytes": pa.int64(),
    "restore_bytes": pa.int64(),
    "snapshot_bytes": pa.int64(),
    "lost_bytes": pa.int64(),
    "usd_compute": pa.float64(),
    "usd_egress": pa.float64(),
    "usd_storage": pa.float64(),
    "train_loss": pa.float64(),
    "val_loss": pa.float64(),
    "val_bits_per_byte": pa.float64(),
    "skip_stage_loss": pa.list_(pa.float64()),
    "code_histogram": pa.list_(pa.int64()),
    "spare_s": pa.float64(),
    "ready_s": pa.float64(),
    "unused_s": pa.float64(),
    "stored_byte_s": pa.float64(),
}
_MASKS = dict.fromkeys(("steps", "sends", "joins"), pa.list_(pa.list_(pa.int64())))
STEPS = pa.schema(list((_NUMBERS | {f"{c}_s": pa.float64() for c in CLASSES} | _MASKS).items()))
"""Columns of steps.parquet; README says what each means."""

SLOTS = pa.schema(
    [
        ("replica", pa.int64()),
        ("stage", pa.int64()),
        ("worker", pa.int64()),
        ("state", pa.string()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
    ]
)
"""Columns of slots.parquet, the timeline; worker -1 where the slot is vacant."""

OUTAGES = pa.schema(
    [
        ("worker", pa.int64()),
        ("zone", pa.string()),
        ("gone_s", pa.float64()),
        ("back_s", pa.float64()),
        ("cause", pa.string()),
    ]
)
"""Columns of outages.parquet, one spell a row; back_s is null if it lasted to the end."""


def write_steps(path: Path, rows: Sequence[Row]) -> None:
    _write(pa.Table.from_pylist(list(rows), schema=STEPS), path)


def write_slots(path: Path, job: Job) -> None:
    columns = zip(*job.timeline.all_rows(), strict=True)
    _write(pa.table(list(map(list, columns)), schema=SLOTS), path)


def write_outages(path: Path, job: Job) -> None:
    """The run as a trace; how many workers for how long stands beside the columns."""
    rows = [
        {
            "worker": s.worker,
            "zone": s.zone,
            "gone_s": s.gone_s,
            "back_s": None if math.isnan(s.back_s) else s.back_s,
            "cause": s.cause,
        }
        for s in job.spells()
    ]
    about = {"workers": str(len(job.roster.hired)), "end_s": repr(job.start_s)}
    _write(pa.Table.from_pylist(rows, schema=OUTAGES.with_metadata(about)), path)


def _write(table: pa.Table, path: Path) -> None:
    """Whole or not at all: another command may have finished the very same run and report on it."""
    with aside(path) as place:
        pq.write_table(table, place)
