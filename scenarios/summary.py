"""The summary of a run: what its rounds add up to, one after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from analysis.crossing import first_at
from scenarios.record import Row
from scenarios.schema import Scenario
from sim.config import HOUR_S
from sim.job import Job
from sim.records import CLASSES, Spell

NOT_REACHED = "not reached"
"""A target loss that no evaluation came down to; nothing is extrapolated."""
NOT_JOINED = ("vacant", "provision", "restore")
"""Classes of a slot that has not joined; one that is ready counts as wait."""


class Totals:
    """Sums over the rounds of a run. Rows are added as they come and not kept."""

    def __init__(self, scenario: Scenario, job: Job) -> None:
        self._scenario, self._job = scenario, job
        self._rounds = self._degraded = 0
        self._sums: dict[str, Any] = {}
        self._billed: dict[str, dict[str, float]] = {"node_s": {}, "bytes": {}}
        self._usd = 0.0  # of a round after the other, as targets count it
        self._wall_s = 0.0
        self._outages, self._away_s = 0, Fraction()  # that have ended; the sum is exact
        self._last: Row | None = None  # of those that were evaluated
        self._evaluated: list[tuple[float, dict[str, float]]] = []  # where a target is asked for

    def add(self, row: Row, spells: Iterable[Spell]) -> None:
        """A round, and the outages that have ended since the one before."""
        self._rounds, self._wall_s = self._rounds + 1, row["end_s"]
        if not self._sums:
            self._sums = {key: 0 for key in row if _adds_up(key)}
        for key in self._sums:
            self._sums[key] += row[key]
        for what, of_name in self._billed.items():
            for name, value in row["billed"][what].items():
                of_name[name] = of_name.get(name, 0) + value
        missing = np.array(row["steps"]) < self._job.config.inner_steps
        self._degraded += int(missing.any(axis=1).sum())
        for key in ("usd_compute", "usd_egress", "usd_storage"):
            self._usd += row[key]
        if row["val_loss"] is not None:
            self._last = row
            if self._scenario.target.val_loss is not None:
                self._evaluated.append((row["val_loss"], self._so_far()))
        for spell in spells:
            self._outages += 1
            self._away_s += Fraction(spell.back_s - spell.gone_s)

    def summary(self) -> dict[str, Any]:
        """What the run comes to; the comparison with the no-failure run is added by `compare`."""
        job, scenario, total, rounds = self._job, self._scenario, self._sums, self._rounds
        slots, wall_s, rest = job.R * job.S, self._wall_s, job.rest()[1]
        away_s = self._away_s + sum(Fraction(_seconds_until(wall_s, spell)) for spell in rest)
        ended = [spell.back_s - spell.gone_s for spell in rest if not math.isnan(spell.back_s)]
        outages, outages_s = self._outages + len(ended), self._away_s + sum(map(Fraction, ended))
        slot_s = {name: total[f"{name}_s"] for name in CLASSES}
        not_joined_s = sum(slot_s[name] for name in NOT_JOINED) + total["ready_s"]
        healthy_tokens = rounds * job.R * job.config.inner_steps * job.config.sizes.tokens
        usd = {key: total[f"usd_{key}"] for key in ("compute", "egress", "storage")}
        last = self._last
        return {
            "name": scenario.name,
            "seed": scenario.seed,
            "policy": scenario.recovery.model_dump(mode="json", exclude_none=True)["policy"],
            "checkpoint": None if job.checkpoints is None else job.checkpoints.told(),
            "outages_kind": scenario.outages.kind,
            "replicas": job.R,
            "stages": job.S,
            "global_steps": rounds,
            "is_cut": rounds < scenario.global_steps,
            "tokens": total["tokens"],
            "train_tokens": total["train_tokens"],
            "token_share": total["tokens"] / healthy_tokens,
            "full_depth_token_share": total["full_depth_tokens"] / healthy_tokens,
            "wall_s": wall_s,
            "tokens_per_s": total["tokens"] / wall_s,
            "ettr": rounds * job.healthy_s / wall_s,
            "availability": 1 - not_joined_s / (slots * wall_s),
            "worker_availability": 1 - float(away_s) / (len(job.roster.hired) * wall_s),
            "outages": job.roster.losses,
            "bought": job.roster.on_call.bought,
            "mean_outage_s": float(outages_s) / outages if outages else None,
            "degraded_share": self._degraded / (rounds * job.R),
            "slot_s": slot_s,
            "bytes": {
                key: total[f"{key}_bytes"]
                for key in ("boundary", "sync", "restore", "snapshot", "lost")
            },
            "billed": {**self._billed, "stored_byte_s": total["stored_byte_s"]},
            "usd": {**usd, "total": sum(usd.values())},
            "usd_per_million_tokens": sum(usd.values()) / total["tokens"] * 1e6,
            "val_loss": last and last["val_loss"],
            "val_bits_per_byte": last and last["val_bits_per_byte"],
            "val_global_step": last and last["global_step"],
            "to_target": self._to_target(scenario.target.val_loss),
            "skip_stage_loss": last and _by_stage(last["skip_stage_loss"]),
            "proxy": scenario.is_proxy,
        }

    def _so_far(self) -> dict[str, float]:
        return {
            "global_steps": self._rounds,
            "train_tokens": self._sums["train_tokens"],
            "hours": self._wall_s / HOUR_S,
            "usd": self._usd,
        }

    def _to_target(self, loss: float | None) -> dict[str, float] | str | None:
        """What it took to come to the loss, interpolated between evaluations; None: no target."""
        if loss is None:
            return None
        found = first_at([seen for seen, _ in self._evaluated], loss)
        if found is None:
            return NOT_REACHED
        k, part = found
        after, before = (self._evaluated[i][1] for i in (k, max(0, k - 1)))
        between = {key: before[key] + part * (after[key] - before[key]) for key in after}
        return {"val_loss": loss, **between} | ({"or_sooner": True} if k == 0 else {})


def compare(summary: dict[str, Any], healthy: Iterable[Row]) -> dict[str, Any]:
    """The summary with the loss of the no-failure run at the last evaluated global step.

    Args:
        healthy: the no-failure run's rows; read only if there is a loss to compare.
    """
    at, other = summary["val_global_step"], None
    if at is not None:
        other = next((row["val_loss"] for row in healthy if row["global_step"] == at), None)
    gap = None if other is None else summary["val_loss"] - other
    return summary | {"val_loss_no_failure": other, "val_loss_gap": gap}


def _seconds_until(t_s: float, spell: Spell) -> float:
    """How long a worker was away by t."""
    back_s = t_s if math.isnan(spell.back_s) else min(t_s, spell.back_s)
    return back_s - min(t_s, spell.gone_s)


def _adds_up(key: str) -> bool:
    return (key.endswith(("_s", "_bytes", "tokens")) and key not in ("start_s", "end_s")) or (
        key.startswith("usd_")
    )


def _by_stage(losses: Sequence[float]) -> dict[str, float]:
    """Losses with an inner stage skipped, by stage; inner stages start at 1."""
    return {str(stage): loss for stage, loss in enumerate(losses, start=1)}
