"""A job whose past is kept, for those who look at all of it."""

from __future__ import annotations

from collections.abc import Iterator

from sim.job import Job, JobConfig
from sim.records import GlobalStep, Row, Spell


class WatchedJob(Job):
    """A job, and what the rounds that it has yielded handed out."""

    def __init__(self, config: JobConfig) -> None:
        super().__init__(config)
        self._rows: list[Row] = []
        self._spells: list[Spell] = []

    def global_steps(self) -> Iterator[GlobalStep]:
        for step in super().global_steps():
            self._rows += step.rows
            self._spells += step.spells
            yield step

    def spells(self) -> list[Spell]:
        """Every outage up to now, by its start."""
        return sorted(self._spells + self.rest()[1], key=lambda x: (x.gone_s, x.worker))

    def timeline(self) -> list[Row]:
        """All rows up to the last committed round, by slot and time."""
        return sorted(self._rows + self.rest()[0], key=lambda row: (row[0], row[1], row[4]))
