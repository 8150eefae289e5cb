"""Studies as `stageout run` writes them, made up: rates x arms x seeds, with their controls.

Sizes are those of the pilot: `skip` nearly free at 5 % and at the depth value at 40 %, `idle` worse
at once, repeats that differ by some thousandths.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.analysis.conftest import ENV, Fake

RATE, LENGTH = "outages.probability", "outages.duration_global_steps"
SKIP = {0.0: 0.0, 0.01: 0.0, 0.05: 0.001, 0.15: 0.03, 0.4: 0.11}
IDLE = {0.0: 0.0, 0.01: 0.022, 0.05: 0.09, 0.15: 0.17, 0.4: 0.26}
LEAN = {0.0: 0.47, 0.001: 0.46, 0.002: 0.46, 0.01: 0.42, 0.05: 0.21, 0.15: 0.02, 0.4: -0.01}
DEPTH, NOISE = 0.12, 0.005
TEXT = {"unigram_nats": 5.61, "bigram_nats": 4.02}


@dataclass
class FakeStudy:
    """A study to make up.

    `arms`: policy and gap by rate of each. `offsets`: how far an arm's own no-failure run is from
    the others'; arms with an offset have a no-failure run of their own.
    """

    arms: Mapping[str, tuple[str, Mapping[float, float]]] = field(
        default_factory=lambda: {"skip": ("skip", SKIP), "idle": ("idle", IDLE)}
    )
    rates: Sequence[float] = (0.0, 0.01, 0.05, 0.15, 0.4)
    lengths: Sequence[int] = ()
    seeds: Sequence[int] = (0, 1, 2)
    controls: Sequence[str] = ("noise", "depth")
    offsets: Mapping[str, float] = field(default_factory=dict)
    noise: float = NOISE
    global_steps: int = 20
    name: str = "loss_vs_failure_rate"
    text: Mapping[str, float] = field(default_factory=lambda: TEXT)
    missing: Sequence[str] = ()
    """Cells without a finished run."""
    failed: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Of every run."""

    def write(self, folder: Path) -> Path:
        """Write study.json and the run folders; returns the folder."""
        self.folder, self.told = folder, {"cells": {}, "baselines": {}, "points": {}}
        for seed in self.seeds:
            healthy = {arm: self._healthy(arm, seed) for arm in self.arms}
            for arm in self.arms:
                self._arm(arm, seed, *healthy[arm])
                for control in self.controls:
                    self._control(control, arm, seed, *healthy[arm])
        parameters = {RATE: list(self.rates)} if self.rates else {}
        parameters |= {LENGTH: list(self.lengths)} if self.lengths else {}
        told = {"name": self.name, **self.told, "parameters": parameters, "arms": list(self.arms),
                "seeds": list(self.seeds), "failed": dict(self.failed)}  # fmt: skip
        (folder / "study.json").write_text(json.dumps(told))
        return folder

    def _healthy(self, arm: str, seed: int) -> tuple[str, float]:
        """Folder and loss of an arm's no-failure run; arms without an offset share it."""
        own = arm if arm in self.offsets else None
        label = "no_failure" if own is None else f"no_failure:{arm}"
        label += f", seed {seed}"
        penalty = self._luck(seed, "healthy", own or "") * 3 + self.offsets.get(arm, 0.0)
        run = self._run(label, "none", seed, penalty)
        if label not in self.told["cells"]:
            self._place(label, own, {}, seed, "no_failure", run, None)
        return self.told["cells"][label], run.loss(1.0)

    def _arm(self, arm: str, seed: int, healthy: str, loss: float) -> None:
        policy, gaps = self.arms[arm]
        swept = {RATE: self.rates} if self.rates else {}
        swept |= {LENGTH: self.lengths} if self.lengths else {}
        for values in itertools.product(*swept.values()):
            point = dict(zip(swept, values, strict=True))
            rate, length = point.get(RATE, 0.05), point.get(LENGTH, 6)
            words = [f"{key.rpartition('.')[2]}={value}" for key, value in point.items()]
            several = [f"seed {seed}"] if len(self.seeds) > 1 else []
            label = ", ".join([arm, *words, *several])
            gap = gaps[rate] * length / 6 + (self._luck(seed, arm, label) if rate else 0.0)
            run = self._run(label, policy, seed, 0.0, probability=rate, duration=length,
                            lean=(LEAN[rate], 1.3 * LEAN[rate]))  # fmt: skip
            run.penalty = loss - run.loss(1.0) + gap
            self._place(label, arm, point, seed, None, run, healthy)

    def _control(self, control: str, arm: str, seed: int, healthy: str, loss: float) -> None:
        label = f"{control}: {arm}, seed {seed}"
        same = next((c for c, h in self.told["baselines"].items()
                     if h == healthy and c.startswith(f"{control}: ")), None)  # fmt: skip
        if same is not None:  # arms that share a no-failure run share its controls
            for key in ("cells", "baselines"):
                self.told[key][label] = self.told[key][same]
            self.told["points"][label] = self.told["points"][same] | {"arm": arm}
            return
        moved = self._luck(seed, control, arm) + (DEPTH if control == "depth" else 0.0)
        change = {"noise": {"jitter": 1e-5}, "depth": {"model": {"layers": 2}}}.get(control, {})
        changes = {"train": {"model": "tiny", "eval_every": 5, **change}}
        run = self._run(label, "none", seed, 0.0, changes=changes)
        run.penalty = loss - run.loss(1.0) + moved
        self._place(label, arm, {}, seed, control, run, healthy)

    def _run(self, label: str, policy: str, seed: int, penalty: float, **more: Any) -> Fake:
        return Fake(label, policy, penalty, self.global_steps, seed=seed, draws=100 + seed,
                    name=self.name, label="", **{**self.more, **more})  # fmt: skip

    def _place(self, label: str, arm: str | None, parameters: Mapping[str, Any], seed: int,
               control: str | None, run: Fake, healthy: str | None) -> None:  # fmt: skip
        place = f"{len(self.told['cells']):012x}-s{seed}"
        self.told["cells"][label] = place
        self.told["baselines"][label] = healthy or place
        self.told["points"][label] = {
            "arm": arm, "parameters": dict(parameters), "seed": seed, "control": control,
        }  # fmt: skip
        if label in self.missing or label in self.failed:
            return
        other = self.folder / (healthy or place) / "summary.json"
        if run.trains and run.eval_every:
            known = json.loads(other.read_text())["val_loss"] if other.is_file() else run.loss(1.0)
            run.no_failure_loss = known
        run.write(self.folder / place)
        (self.folder / place / "env.json").write_text(json.dumps(ENV | {"text": self.text}))

    def _luck(self, seed: int, *what: str) -> float:
        key = [seed, *"".join(what).encode()]
        return float(np.random.default_rng(key).normal(0.0, self.noise))
