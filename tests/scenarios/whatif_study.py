"""A small study that is really simulated: two markets, a mix and a fallback, two policies."""

from __future__ import annotations

from pathlib import Path

from analysis.whatif_grid import LINKS
from scenarios.load import load
from scenarios.plan import plan
from scenarios.show import Show
from scenarios.study import run_all

RATES, OUTAGES = (0.5, 1.0, 2.0), (0.05, 0.1, 0.2)
TEXT = """
name: small
global_steps: 30
train: null
cluster: {replicas: 3, stages: 3}
outages: {kind: pools}
method: {inner_steps: 4}
work: {model: 178m, fits: ignore, sequences: 8, micro_batches: 4, utilisation: 0.01}
pools:
  near: {workers: 5, instance: p3.2xlarge, market: spot, usd_per_h: 0.9, regime: ordinary-spot,
    provision_s: 5, detect_s: 1}
  far: {workers: 5, instance: p3.2xlarge, market: spot, regime: ordinary-spot,
    provision_s: 5, detect_s: 1}
  fixed: {workers: 0, instance: p3.2xlarge, regime: owned}
network:
  stages: {usd_per_gb: 0.01}
  store: {usd_per_gb: 0.02, usd_per_gb_month: 2.3}
sweep:
  arms:
    spot-skip: {recovery.policy: [skip, idle]}
    spot-wait: {recovery.policy: [wait]}
    mix-skip:
      recovery.policy: [skip, idle]
      pools.*ar.workers: 2
      pools.fixed.workers: 6
      cluster.place: {ends: fixed, inner: [near, far]}
    fallback-wait:
      recovery.policy: [wait]
      pools.*ar.fallback: {pool: fixed, after_wait_s: 60, after_losses: 2}
      pools.fixed.workers: 9
    fixed-wait: {recovery.policy: [wait], pools.*ar.workers: 0, pools.fixed.workers: 9}
  parameters:
    pools.*ar.losses_per_h: [0.5, 1.0, 2.0]
    pools.*ar.mean_outage_h: [0.05, 0.1, 0.2]
  seeds: 2
"""
FREE = [
    *(f"usd_per_h.{pool}=0" for pool in ("near", "far", "fixed")),
    *(f"usd_per_gb.{link}=0" for link in LINKS),
    "usd_per_gb_month=0",
]
"""Volunteers are not paid."""


def simulate(folder: Path, *overrides: str) -> Path:
    """The study's folder, its runs finished."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "small.yaml"
    file.write_text(TEXT, encoding="utf-8")
    planned = plan(load(file, list(overrides)), folder / "runs")
    with Show(is_quiet=True) as show:
        result = run_all(planned, 1, show)
    assert not result.failed
    return planned.folder
