"""A scenario small enough to train in a second, on text that the tests make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.whatif import read_all
from analysis.whatif_grid import Grid
from scenarios.load import Loaded, dump, load
from scenarios.schema import Scenario
from tests.scenarios.whatif_study import simulate

TEXT = "\n".join(
    f"{i} replicas agree on stage {i % 7}; worker {i * i % 101} is {'gone' if i % 3 else 'back'}."
    for i in range(3000)
)

SMALL = """
name: small
global_steps: 6
cluster: {replicas: 3, stages: 4}
method: {inner_steps: 4}
train:
  model: {d: 16, layers: 4, heads: 2, ffn: 24, seq: 12}
  data: {source: text, path: text, vocab: 300}
  inner: {sequences: 2, lr: 3e-3}
  eval_every: 2
  eval_sequences: 16
work: {model: 178m, sequences: 8, micro_batches: 4}
pools: {default: {usd_per_h: 2.0}}
"""

OUTAGES = {
    "none": "outages: {kind: none}",
    "per_global_step": "outages: {kind: per_global_step, probability: 0.4, "
    "duration_global_steps: 2}",
    "ends": "outages: {kind: per_global_step, probability: 0.3, duration_global_steps: 2, "
    "stages: all}",
    "script": "outages: {kind: script, script: {"
    "inner: {replica: 0, stage: 1, at: {global_step: 1, inner_step: 2}, outage_s: 3}, "
    "end: {replica: 1, stage: 3, at: {global_step: 2, inner_step: 1}, outage_s: 4}, "
    "dated: {replica: 2, stage: 2, gone_s: 4, back_s: 6}}}",
    "pools": "outages: {kind: pools}",
}
POOL = (
    "pools.default={usd_per_h: 2.0, workers: 14, up_h: {law: exponential, mean: 0.01}, "
    "outage_h: {law: exponential, mean: 0.001}, provision_s: 0.5, detect_s: 0.2, notice_s: 0.4}"
)


@pytest.fixture(autouse=True)
def _numbers_as_usual() -> Iterator[None]:
    """Training in this process makes torch flush denormal numbers; other tests need them."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Loaded]:
    """`small("skip", "per_global_step", "key=value", ...)` loads a small scenario."""

    def make(outages: str = "none", *overrides: str, **blocks: Any) -> Loaded:
        (tmp_path / "text").mkdir(exist_ok=True)
        (tmp_path / "text" / "a.txt").write_text(TEXT)
        file = tmp_path / "small.yaml"
        file.write_text(f"{SMALL}{OUTAGES[outages]}\n")
        pool = [POOL] if outages == "pools" else []
        return load(file, [*pool, *overrides])

    return make


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Scenario]:
    """A scenario of one pool, with price files beside it; what is dumped loads back equal."""

    def make(pool: str, *lines: str, **files: str) -> Scenario:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text, encoding="utf-8")
        tail = ("cluster: {replicas: 4, stages: 8}", "")  # so that it fits small devices
        text = "\n".join(("name: a", "train: null", f"pools: {{p: {pool}}}", *lines, *tail))
        (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
        scenario = load(tmp_path / "s.yaml").scenario
        (tmp_path / "sub").mkdir(exist_ok=True)  # where no price file lies
        (tmp_path / "sub" / "again.yaml").write_text(dump(scenario), encoding="utf-8")
        assert load(tmp_path / "sub" / "again.yaml").scenario == scenario
        return scenario

    return make


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of prices, for all what-if tests of a process."""
    return simulate(tmp_path_factory.mktemp("whatif"))


@pytest.fixture(scope="session")
def grid(study: Path) -> Grid:
    """What its what-if page knows."""
    return read_all(study, None)[0]
