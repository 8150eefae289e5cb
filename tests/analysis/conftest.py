"""Run folders as `stageout run` writes them, made up: a toy cluster and a toy loss curve."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from matplotlib.figure import Figure

from analysis import style

H, TOKENS, TRAIN_TOKENS = 20, 65_536, 1_024
ROUND_S = 155.0
CLASSES = (
    "vacant", "provision", "restore", "compute", "boundary", "bubble", "lost", "sync", "wait",
)  # fmt: skip
HEALTHY = {"compute": 0.62, "boundary": 0.06, "bubble": 0.22, "sync": 0.1}
PER_STEP = {
    "kind": "per_global_step",
    "probability": 0.05,
    "duration_global_steps": 6,
    "stages": "inner",
    "start_step": 0,
}


@dataclass
class Fake:
    """A run to make up. `policy` none, skip or idle; `penalty` what outages do to the loss."""

    cell: str = "run"
    policy: str = "skip"
    penalty: float = 0.0
    global_steps: int = 45
    replicas: int = 8
    stages: int = 4
    eval_every: int | None = 5
    trains: bool = True
    price: float = 0.92
    seed: int = 0
    name: str = "quickstart"
    label: str = "one seed, not evidence"
    proxy: bool = True
    no_failure_loss: float | None = None
    breaks: bool = True
    probability: float = 0.05
    duration: int = 6
    draws: int = 7
    """Seed of the outages."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Replaces blocks of the scenario."""
    lean: tuple[float, float] = (0.31, 0.17)
    """Rise of the loss when an inner stage is bypassed."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Replaces keys of the summary."""

    def loss(self, share: float) -> float:
        """Validation loss when so much of the job is done."""
        return 3.9 + 3.0 * math.exp(-4.5 * share) + self.penalty * share

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the run folder; returns its summary."""
        folder.mkdir(parents=True)
        rows, slots, spells = self._simulate()
        summary = self._summary(rows, slots, spells) | self.summary
        pq.write_table(
            pa.Table.from_pylist(rows, schema=_schema(rows[0])), folder / "steps.parquet"
        )
        names = ["replica", "stage", "worker", "state", "start_s", "end_s"]
        columns = list(map(list, zip(*slots, strict=True)))
        pq.write_table(pa.table(columns, names=names), folder / "slots.parquet")
        names = ["worker", "zone", "gone_s", "back_s", "cause"]
        kinds = [pa.int64(), pa.string(), pa.float64(), pa.float64(), pa.string()]
        schema = pa.schema(list(zip(names, kinds, strict=True)))
        told = [dict(zip(names, spell, strict=True)) for spell in spells]
        pq.write_table(pa.Table.from_pylist(told, schema=schema), folder / "outages.parquet")
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "scenario.yaml").write_text(yaml.safe_dump(self.scenario(), sort_keys=False))
        (folder / "env.json").write_text(json.dumps(ENV))
        (folder / "summary.json").write_text(json.dumps(summary))
        return summary

    def scenario(self) -> dict[str, Any]:
        broken = {"probability": self.probability, "duration_global_steps": self.duration}
        return {
            "name": self.name,
            "seed": self.seed,
            "global_steps": self.global_steps,
            "cluster": {"replicas": self.replicas, "stages": self.stages},
            "outages": {"kind": "none"} if self.policy == "none" else PER_STEP | broken,
            "recovery": {"policy": ["skip", "idle"] if self.policy != "idle" else ["idle"]},
            "method": {"inner_steps": H, "outer": {"name": "sparseloco", "density": 0.03125}},
            "train": {"model": "tiny", "eval_every": self.eval_every} if self.trains else None,
            "work": {"model": "178m", "peak_tflops": 125.0, "utilisation": 0.4},
            "pools": {"default": {"workers": None, "usd_per_h": self.price}},
            "network": {"stages": {"bandwidth_mbps": 5000.0, "latency_ms": 0.5}},
            **self.changes,
        }

    def _simulate(self) -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
        R, S = self.replicas, self.stages
        draws = np.random.default_rng(self.draws).random((self.global_steps, R, 2))
        out = np.full((R, 2), -1)  # stage, rounds left
        rows, slots, spells = [], [], []
        running: dict[tuple[int, int], list[Any]] = {}
        for g in range(self.global_steps):
            a, b = g * ROUND_S, (g + 1) * ROUND_S
            for r in range(R):
                can_fail = self.policy != "none" and self.breaks and S > 2
                if out[r, 1] <= 0 and can_fail and draws[g, r, 0] < self.probability:
                    out[r] = 1 + int(draws[g, r, 1] * (S - 2)), self.duration
                    back_s = a + self.duration * ROUND_S
                    spells.append([int(r * S + out[r, 0]), "default", a, back_s, "step"])
            gone = {(r, int(out[r, 0])) for r in range(R) if out[r, 1] > 0}
            idle = {r for r, _ in gone} if self.policy == "idle" else set()
            steps = np.full((R, S), H)
            for r in range(R):
                for s in range(S):
                    state = "vacant" if (r, s) in gone else "wait" if r in idle else "train"
                    steps[r, s] = H if state == "train" else 0
                    last = running.get((r, s))
                    if last and last[3] == state:
                        last[5] = b
                        continue
                    worker = -1 if state == "vacant" else r * S + s
                    running[r, s] = [r, s, worker, state, a, b]
                    slots.append(running[r, s])
            out[:, 1] -= 1
            rows.append(
                self._row(g, a, b, steps, len(gone), 0 if not idle else len(idle) * (S - 1))
            )
        return rows, sorted(slots, key=lambda row: (row[0], row[1], row[4])), spells

    def _row(
        self, g: int, a: float, b: float, steps: Any, vacant: int, waiting: int
    ) -> dict[str, Any]:
        live = int((steps == H).sum())
        second = {c: live * ROUND_S * HEALTHY.get(c, 0.0) for c in CLASSES}
        second |= {"vacant": vacant * ROUND_S, "wait": waiting * ROUND_S}
        due = self.eval_every and ((g + 1) % self.eval_every == 0 or g + 1 == self.global_steps)
        loss = self.loss((g + 1) / self.global_steps) if self.trains and due else None
        most, least = int(steps.max(axis=1).sum()), int(steps.min(axis=1).sum())
        return {
            "global_step": g,
            "start_s": a,
            "end_s": b,
            "tokens": most * TOKENS,
            "full_depth_tokens": least * TOKENS,
            "train_tokens": most * TRAIN_TOKENS if self.trains else 0,
            "slots_live": live,
            "slots_sending": live,
            "replicas_sending": int(steps.any(axis=1).sum()),
            "boundary_bytes": most * 3 * TOKENS * 4096,
            "sync_bytes": live * 22_000_000,
            "restore_bytes": 0,
            "snapshot_bytes": 0,
            "lost_bytes": 0,
            "usd_compute": (live + waiting) * ROUND_S * self.price / 3600,
            "usd_egress": 0.004 * self.price,
            "usd_storage": 0.001 * self.price,
            "train_loss": self.loss((g + 1) / self.global_steps) if self.trains else None,
            "val_loss": loss,
            "val_bits_per_byte": loss and loss / math.log(2) / 2.6,
            "skip_stage_loss": loss and [loss + rise for rise in self.lean],
            "spare_s": 0.0,
            **{f"{c}_s": second[c] for c in CLASSES},
            "steps": steps.tolist(),
            "sends": (steps > 0).astype(int).tolist(),
            "joins": np.zeros_like(steps).tolist(),
        }

    def _summary(self, rows: Any, slots: Any, spells: Any) -> dict[str, Any]:
        total = {key: math.fsum(row[key] for row in rows) for key in rows[0] if _adds_up(key)}
        wall_s, last = rows[-1]["end_s"], rows[-1]
        healthy = self.global_steps * self.replicas * H * TOKENS
        slot_s = self.replicas * self.stages * wall_s
        usd = {key: total[f"usd_{key}"] for key in ("compute", "egress", "storage")}
        steps = np.array([row["steps"] for row in rows])
        loss, other = last["val_loss"], self.no_failure_loss
        lean = last["skip_stage_loss"]
        return {
            "name": self.name, "seed": self.seed, "cell": self.cell, "label": self.label,
            "policy": self.scenario()["recovery"]["policy"],
            "outages_kind": self.scenario()["outages"]["kind"],
            "replicas": self.replicas, "stages": self.stages, "global_steps": len(rows),
            "tokens": int(total["tokens"]), "train_tokens": int(total["train_tokens"]),
            "token_share": total["tokens"] / healthy,
            "full_depth_token_share": total["full_depth_tokens"] / healthy,
            "wall_s": wall_s, "tokens_per_s": total["tokens"] / wall_s, "ettr": 1.0,
            "availability": 1 - total["vacant_s"] / slot_s,
            "worker_availability": 1 - total["vacant_s"] / slot_s,
            "outages": len(spells), "mean_outage_s": self.duration * ROUND_S if spells else None,
            "degraded_share": float((steps < H).any(axis=2).mean()),
            "slot_s": {c: total[f"{c}_s"] for c in CLASSES},
            "bytes": {k: int(total[f"{k}_bytes"])
                      for k in ("boundary", "sync", "restore", "snapshot", "lost")},
            "usd": usd | {"total": sum(usd.values())},
            "usd_per_million_tokens": sum(usd.values()) / total["tokens"] * 1e6,
            "val_loss": loss, "val_bits_per_byte": last["val_bits_per_byte"],
            "val_global_step": None if loss is None else last["global_step"],
            "skip_stage_loss": lean and {str(k): v for k, v in enumerate(lean, start=1)},
            "proxy": self.proxy and self.trains, "anchor_sha256": "ab" * 32,
            "val_loss_no_failure": None if loss is None else other,
            "val_loss_gap": None if loss is None or other is None else loss - other,
        }  # fmt: skip


def _adds_up(key: str) -> bool:
    is_sum = key.endswith(("_s", "_bytes", "tokens")) or key.startswith("usd_")
    return is_sum and key not in ("start_s", "end_s")


def _schema(row: dict[str, Any]) -> pa.Schema:
    kinds: dict[str, Any] = {"skip_stage_loss": pa.list_(pa.float64())}
    kinds |= dict.fromkeys(("steps", "sends", "joins"), pa.list_(pa.list_(pa.int64())))
    floats = ("_s", "_loss", "_byte", "usd_compute", "usd_egress", "usd_storage")
    for key in row:
        kinds.setdefault(key, pa.float64() if key.endswith(floats) else pa.int64())
    return pa.schema([(key, kinds[key]) for key in row])


ENV = {
    "python": "3.11.9 (main)",
    "platform": "Linux-6.1-x86_64",
    "cpus": 2,
    "versions": {"stageout": "0.1.0", "torch": "2.13.0+cpu", "numpy": "2.4.6"},
    "device": "cpu",
    "threads": 1,
    "corpus": {"source": "python-stdlib", "sha256": "cd" * 32, "bytes": 11_400_000},
    "trained_from": 0,
    "measured_s": {"train": 31.25, "evaluate": 2.125, "checkpoint": 0.5},
}

Make = Callable[..., Path]


def write_study(folder: Path, runs: list[Fake], baseline: str | None = "no_failure") -> Path:
    """A study folder of these runs, all compared with the one named `baseline`."""
    healthy = next((run for run in runs if run.cell == baseline), None)
    cells = {run.cell: f"{k:012x}-s{run.seed}" for k, run in enumerate(runs)}
    for run in runs:
        if healthy is not None and healthy.trains and healthy.eval_every:
            run.no_failure_loss = healthy.loss(1.0)
        run.write(folder / cells[run.cell])
    baselines = dict.fromkeys(cells, cells[baseline]) if healthy and baseline else {}
    study = {"name": runs[0].name, "cells": cells, "baselines": baselines}
    (folder / "study.json").write_text(json.dumps(study))
    return folder


def quickstart(**changes: Any) -> list[Fake]:
    """The three runs of the quickstart."""
    return [
        Fake("no_failure", "none", **changes),
        Fake("skip", "skip", 0.0123, **changes),
        Fake("idle", "idle", 0.0834, **changes),
    ]


@pytest.fixture
def fake() -> type[Fake]:
    return Fake


@pytest.fixture
def study(tmp_path: Path) -> Callable[[list[Fake]], Path]:
    """Write runs as a study and return its folder."""
    return lambda runs, **more: write_study(tmp_path / "runs" / runs[0].name, runs, **more)


@pytest.fixture
def three() -> Callable[..., list[Fake]]:
    return quickstart


@pytest.fixture
def light_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures as SVG only, not laid out: a third of the time."""

    def render(figure: Figure, stem: str, caption: str, alt: str) -> style.Drawn:
        figure.set_layout_engine("none")
        svg = io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "stageout"})
        return style.Drawn(stem, svg.getvalue(), b"\x89PNG\r\n\x1a\n", caption, alt)

    monkeypatch.setattr(style, "render", render)


@pytest.fixture(scope="session")
def quickstart_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart as a study folder; shared, so only to be read."""
    return write_study(tmp_path_factory.mktemp("runs") / "quickstart", quickstart())
