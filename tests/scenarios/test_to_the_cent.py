"""Dollars in summary.json and steps.parquet against a calculation by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scenarios.load import load
from scenarios.plan import plan
from scenarios.run import execute

SCENARIO = """
name: a
global_steps: 40
train: null
cluster: {replicas: 3, stages: 4}
outages: {kind: pools}
method: {inner_steps: 4}
work: {model: 178m, sequences: 8, micro_batches: 4}
pools:
  p: {instance: p3.2xlarge, market: spot, workers: 14, billing_minimum_s: 60, provision_s: 5,
      detect_s: 1, up_h: {law: exponential, mean: 0.02}, outage_h: {law: exponential, mean: 0.01}}
network:
  stages: {usd_per_gb: 0.01}
  store: {usd_per_gb: 0.02, usd_per_gb_month: 23000}
"""


def test_dollars_agree_to_the_cent(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    planned = plan(load(tmp_path / "s.yaml"), tmp_path / "runs")
    run = planned.runs[planned.cells["run"]]
    summary = execute(run, lambda text: None)
    table = pq.read_table(run.folder.steps)
    total = {
        name: sum(table.column(name).to_pylist())
        for name in table.column_names
        if name.endswith(("_s", "_bytes")) or name.startswith("usd_")
    }

    slots, wall_s = 12, summary["wall_s"]
    node_s = slots * wall_s - total["vacant_s"] + total["spare_s"]
    assert total["unused_s"] > 0
    by_hand = {
        "compute": (node_s + total["unused_s"]) * 0.92 / 3600,
        "storage": total["stored_byte_s"] / 1e9 * 23000 / (730 * 3600),
    }
    through_store = total["sync_bytes"] + total["restore_bytes"] + total["snapshot_bytes"]
    lowest = (total["boundary_bytes"] * 0.01 + through_store * 0.02) / 1e9
    lost = total["lost_bytes"] / 1e9
    assert lowest + 0.01 * lost <= summary["usd"]["egress"] <= lowest + 0.02 * lost
    by_hand["egress"] = total["usd_egress"]
    for item, usd in by_hand.items():
        assert summary["usd"][item] == pytest.approx(usd, rel=1e-9), item
        assert total[f"usd_{item}"] == pytest.approx(usd, rel=1e-9), item
    billed = summary["billed"]
    assert billed["node_s"]["p"] == pytest.approx(node_s + total["unused_s"], rel=1e-9)
    assert billed["bytes"]["replicas"] == 0
    assert sum(billed["bytes"].values()) == total["boundary_bytes"] + through_store + 1e9 * lost
    links = billed["bytes"]["stages"] * 0.01 + billed["bytes"]["store"] * 0.02
    assert links / 1e9 == pytest.approx(by_hand["egress"], rel=1e-9)
    assert billed["stored_byte_s"] == total["stored_byte_s"]
    assert min(by_hand.values()) > 0.1, "large enough to be wrong"
    assert summary["usd"]["total"] == pytest.approx(sum(by_hand.values()), rel=1e-9)
    tokens = summary["tokens"]
    assert summary["usd_per_million_tokens"] * tokens / 1e6 == pytest.approx(
        summary["usd"]["total"]
    )
