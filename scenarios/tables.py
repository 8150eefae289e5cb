"""The Parquet files of a run folder: columns and writers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.files import aside
from scenarios.record import Row
from scenarios.sorter import Sorter
from scenarios.store import RunFolder
from sim.job import Job
from sim.records import CLASSES, GlobalStep, Spell
from sim.records import Row as SlotRow

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

GROUP_ROWS = 65_536
"""Rows of a timeline or of outages that are written, and so held, together."""
GROUP_SLOTS = 32_768
"""Rounds are written together until they have so many slots: masks are the largest part of them."""


class Tables:
    """Takes the rounds of a run as they come; steps.parquet grows with them.

    The timeline and the outages wait until the end, since their files go by slot and by start.
    """

    def __init__(
        self, steps: pq.ParquetWriter, timeline: Sorter, outages: Sorter, group: int
    ) -> None:
        self._steps, self._timeline, self._outages = steps, timeline, outages
        self._group = group  # rounds
        self._rows: list[Row] = []

    def add(self, row: Row, step: GlobalStep) -> None:
        """A round, and what has ended in it."""
        self._rows.append(row)
        if len(self._rows) == self._group:
            self.write_steps()
        self.tell(step.rows, step.spells)

    def write_steps(self) -> None:
        """Write the rounds that have not been written."""
        if self._rows:
            self._steps.write_table(pa.Table.from_pylist(self._rows, schema=STEPS))
            self._rows.clear()

    def tell(self, rows: Sequence[SlotRow], spells: Sequence[Spell]) -> None:
        """Of the timeline, and outages."""
        if rows:
            self._timeline.add(rows)
        if spells:
            self._outages.add(map(astuple, spells))


@contextmanager
def tables(folder: RunFolder, job: Job) -> Iterator[Tables]:
    """The Parquet files of a run folder: written while the job goes on, there when it has ended.

    Each is there whole or not at all: another command may have finished the very same run and
    report on it. The folder is locked, so what lies aside is what kills have left.
    """
    for left in folder.path.glob(".*.parquet.*"):
        left.unlink()
    timeline = Sorter(SLOTS.names, by=["replica", "stage", "start_s"])
    outages = Sorter(OUTAGES.names, by=["gone_s", "worker"])
    with closing(timeline), closing(outages), aside(folder.steps) as place:
        with pq.ParquetWriter(place, STEPS) as steps:
            group = max(1, GROUP_SLOTS // (job.R * job.S))
            found = Tables(steps, timeline, outages, group)
            yield found
            found.write_steps()
        found.tell(*job.rest())
        _write_sorted(folder.path / "slots.parquet", SLOTS, timeline)
        about = {"workers": str(len(job.roster.hired)), "end_s": repr(job.start_s)}
        schema = OUTAGES.with_metadata(about)  # the run as a trace
        _write_sorted(folder.path / "outages.parquet", schema, outages)


def _write_sorted(path: Path, schema: pa.Schema, rows: Sorter) -> None:
    with aside(path) as place, pq.ParquetWriter(place, schema) as writer:
        for batch in rows.batches(GROUP_ROWS):
            columns = zip(*batch, strict=True) if batch else ([] for _ in schema)
            writer.write_table(pa.table(list(map(list, columns)), schema=schema))
