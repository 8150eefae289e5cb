"""The coupling: clock and training agree, runs repeat to the bit, and survive kills."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scenarios.derive import job_config
from scenarios.directives import directive
from scenarios.load import Loaded
from scenarios.plan import plan
from scenarios.record import CouplingError, Expected, check_coupling, read_rows
from scenarios.run import execute
from scenarios.session import Run, make_trainer
from scenarios.store import StoreError
from sim.job import Job
from tests.scenarios.conftest import OUTAGES
from trainer.directive import Directive

Small = Callable[..., Loaded]
RESTART = "recovery={policy: [restart], checkpoint: {every_global_steps: 2}}"
POLICIES = (
    "recovery.policy=[skip, idle]",
    "recovery.policy=[skip, wait]",
    "recovery.policy=[idle]",
    "recovery.policy=[wait]",
    "recovery.policy=[wait: {at_most_s: 1}, idle]",
    RESTART,
)


def the_run(loaded: Loaded, out: Path) -> Run:
    """The scenario's own run, not its no-failure run."""
    planned = plan(loaded, out)
    return planned.runs[planned.cells["run"]]


def quiet(text: str) -> None:
    del text


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("outages", OUTAGES)
def test_coupling_equalities_hold_for_every_kind_and_policy(
    small: Small, tmp_path: Path, outages: str, policy: str
) -> None:
    """execute() asserts them on every step; here they are recomputed from the record."""
    run = the_run(small(outages, policy), tmp_path / "runs")
    summary = execute(run, quiet)
    job = Job(job_config(run.scenario))
    sizes, H = job.config.sizes, run.scenario.method.inner_steps
    slot_s = sizes.micro_batches * np.add(sizes.forward_s, sizes.backward_s)
    table = pq.read_table(run.folder.steps).to_pylist()
    assert [row["global_step"] for row in table] == list(range(6))
    for row in table:
        steps = np.array(row["steps"])
        assert row["compute_s"] == pytest.approx((steps * slot_s).sum())
        assert row["tokens"] == steps.max(axis=1).sum() * sizes.tokens
        assert row["train_tokens"] == steps.max(axis=1).sum() * 2 * 12
        assert row["slots_live"] == (steps == H).sum()
        hops = sum(sum(sum(steps[r] > h) - 1 for h in range(steps[r].max())) for r in range(3))
        assert row["boundary_bytes"] == 2 * hops * sizes.hop_bytes
    if outages == "none" or policy in ("recovery.policy=[wait]", RESTART):
        assert summary["degraded_share"] == 0
    else:
        assert 0 < summary["degraded_share"] < 1
        assert summary["outages"] > 0


def test_a_directive_is_rebuilt_from_its_row(small: Small, tmp_path: Path) -> None:
    run = the_run(small("script"), tmp_path / "runs")
    execute(run, quiet)
    rows = pq.read_table(run.folder.steps).to_pylist()
    for g, row in zip(Job(job_config(run.scenario)).global_steps(), rows, strict=True):
        rebuilt = Directive(
            row["global_step"], *(np.array(row[key]) for key in ("steps", "sends", "joins"))
        )
        assert rebuilt.key() == directive(g).key()


def test_any_disagreement_between_clock_and_training_is_an_error(small: Small) -> None:
    scenario = the_run(small("script"), Path("runs")).scenario
    job = Job(job_config(scenario))
    expected = Expected.of(scenario, job)
    trainer = make_trainer(scenario)
    assert trainer is not None
    g = next(job.global_steps())
    r = trainer.step(directive(g))
    check_coupling(g, r, expected)
    wrong = [
        (g, dataclasses.replace(r, forward_calls=r.forward_calls + 1)),
        (g, dataclasses.replace(r, hop_tokens={**r.hop_tokens, (0, 2): 24})),
        (g, dataclasses.replace(r, kept_values=r.kept_values - 1)),
        (g, dataclasses.replace(r, train_tokens=r.train_tokens + 1)),
        (dataclasses.replace(g, compute_s=g.compute_s * 1.001), r),
        (dataclasses.replace(g, sends=~g.sends), r),
    ]
    for clock, training in wrong:
        with pytest.raises(CouplingError, match="global step 0"):
            check_coupling(clock, training, expected)


@pytest.mark.parametrize("policy", ["recovery.policy=[wait]", RESTART])
def test_rule_07_wait_and_restart_give_the_no_failure_loss_bit_for_bit_later(
    small: Small, tmp_path: Path, policy: str
) -> None:
    for outages in ("per_global_step", "ends", "script", "pools"):
        planned = plan(small(outages, policy), tmp_path / outages)
        healthy, waited = planned.runs.values()
        a, b = execute(healthy, quiet), execute(waited, quiet)
        assert a["anchor_sha256"] == b["anchor_sha256"]
        assert a["val_loss"] == b["val_loss"]
        losses = [
            [r["train_loss"] for r in list(read_rows(x.folder.metrics))] for x in (healthy, waited)
        ]
        assert losses[0] == losses[1]
        assert b["wall_s"] > a["wall_s"]
        assert b["ettr"] < 1


def test_the_same_scenario_and_seed_give_the_same_files(small: Small, tmp_path: Path) -> None:
    runs = [the_run(small("pools"), tmp_path / name) for name in ("one", "two")]
    one, two = (execute(run, quiet) for run in runs)
    assert one == two
    for name in ("steps.parquet", "slots.parquet", "outages.parquet", "metrics.jsonl"):
        assert (runs[0].folder.path / name).read_bytes() == (
            runs[1].folder.path / name
        ).read_bytes()
    other = execute(the_run(small("pools", "seed=1"), tmp_path / "one"), quiet)
    assert other["anchor_sha256"] != one["anchor_sha256"]


def _execute_in_child(run: Run) -> None:
    execute(run, quiet)


def test_a_run_killed_at_ten_random_moments_resumes_to_the_same_bits(
    small: Small, tmp_path: Path
) -> None:
    overrides = ("global_steps=24", "method.inner_steps=6")
    execute(the_run(small("none"), tmp_path / "warm"), quiet)  # imports and the tokenizer are there
    whole = the_run(small("per_global_step", *overrides), tmp_path / "whole")
    begin = time.monotonic()
    expected = execute(whole, quiet)
    length_s = time.monotonic() - begin
    killed = the_run(small("per_global_step", *overrides), tmp_path / "killed")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scenarios.run", "trainer.loop"])
    moments = random.Random(0)
    ends = []
    for _ in range(10):
        child = context.Process(target=_execute_in_child, args=(killed,))
        child.start()
        child.join(moments.uniform(0.1, 0.7) * length_s)
        child.kill()
        child.join()
        ends.append(child.exitcode)
    assert -9 in ends, "no kill came before the end; make the run longer"
    assert execute(killed, quiet) == expected
    assert killed.folder.steps.read_bytes() == whole.folder.steps.read_bytes()
    assert killed.folder.metrics.read_bytes() == whole.folder.metrics.read_bytes()


def test_a_resume_trains_only_what_is_missing(small: Small, tmp_path: Path) -> None:
    run = the_run(small("per_global_step"), tmp_path / "runs")
    seen: list[int] = []

    def stop_after_three(row: dict[str, object]) -> None:
        seen.append(int(str(row["global_step"])))
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, quiet, stop_after_three)
    told: list[str] = []
    execute(run, told.append, lambda row: seen.append(row["global_step"]))
    assert seen[:4] == [0, 1, 2, 3]
    assert seen[4:] == list(range(seen[4], 6))
    assert seen[4] >= 1
    assert f"goes on after global step {seen[4] - 1}" in told[0]


def test_other_outages_than_planned_are_refused(small: Small, tmp_path: Path) -> None:
    run = the_run(small("per_global_step"), tmp_path / "runs")
    assert run.training is not None
    wrong = dataclasses.replace(run.training, directives="0" * 64)
    with pytest.raises(StoreError, match="differ from those it was planned with"):
        execute(dataclasses.replace(run, training=wrong), quiet)
    assert run.training.done() is None


def test_a_broken_checkpoint_falls_back_to_the_one_before(small: Small, tmp_path: Path) -> None:
    expected = execute(the_run(small("per_global_step"), tmp_path / "whole"), quiet)
    run = the_run(small("per_global_step"), tmp_path / "runs")

    def stop_after_five(row: dict[str, object]) -> None:
        if row["global_step"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, quiet, stop_after_five)
    assert run.training is not None
    run.training.save_checkpoint(5, lambda path: (path / "trainer.json").write_text("{}"))
    told: list[str] = []
    assert execute(run, told.append) == expected
    assert "trying the one before" in told[0]


def test_an_idle_replica_skips_its_data_and_a_timing_run_has_no_losses(
    small: Small, tmp_path: Path
) -> None:
    run = the_run(small("per_global_step", "recovery.policy=[idle]"), tmp_path / "runs")
    summary = execute(run, quiet)
    rows = list(read_rows(run.folder.metrics))
    assert summary["train_tokens"] == sum(row["train_tokens"] for row in rows) < 6 * 3 * 4 * 24
    assert summary["token_share"] == summary["full_depth_token_share"] < 1
    timing = the_run(small("per_global_step", "train=null"), tmp_path / "timing")
    told = execute(timing, quiet)
    assert told["val_loss"] is None
    assert told["train_tokens"] == 0
    assert all(row["train_loss"] is None for row in read_rows(timing.folder.metrics))
    assert math.isfinite(told["usd"]["total"])


def test_a_slot_is_available_from_joined_to_gone(small: Small, tmp_path: Path) -> None:
    """Ready and not joined counts as wait, and not as available."""
    script = (
        "outages={kind: script, script: {one: {replica: 0, stage: 1, gone_s: 0.01, back_s: 0.02}}}"
    )
    timing = the_run(small("none", script, "train=null", "global_steps=3"), tmp_path / "runs")
    summary = execute(timing, quiet)
    rows = list(read_rows(timing.folder.metrics))
    joined_s = rows[1]["start_s"]  # it was back at once, and could join at the next round only
    wall_s = rows[-1]["end_s"]
    assert summary["availability"] == pytest.approx(1 - (joined_s - 0.01) / (12 * wall_s))
    assert sum(row["ready_s"] for row in rows) > 0
