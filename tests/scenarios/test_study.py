"""Studies: what is equal is trained once, forks are exact, what fails fails alone, kills and
company change nothing."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios import plan as planning
from scenarios.load import Loaded
from scenarios.plan import Plan, plan
from scenarios.run import execute
from scenarios.shard import Shard
from scenarios.show import Show
from scenarios.store import RunFolder
from scenarios.study import Result, run_study

Small = Callable[..., Loaded]
STUDY = (
    "sweep={arms: {skip: {recovery.policy: [skip, idle]}}, "
    "parameters: {outages.probability: [0.1, 0.6]}, seeds: 2, "
    "controls: {noise: {train.jitter: 1e-5}, depth: {cluster.stages: 2, train.model.layers: 2}}}"
)
FILES = ("steps.parquet", "slots.parquet", "outages.parquet", "metrics.jsonl", "summary.json")


def quiet(text: str) -> None:
    del text


def run(loaded: Loaded, out: Path, shard: Shard | None = None) -> tuple[Plan, Result]:
    return run_study(loaded, out, 1, Show(is_quiet=True), shard=shard)


def contents(planned: Plan) -> dict[str, list[bytes]]:
    """Every file of every cell that equal runs have equal."""
    return {
        cell: [(folder.path / name).read_bytes() for name in FILES]
        for cell, folder in planned.cells.items()
    }


def trained_steps(planned: Plan, folder: RunFolder) -> int:
    """Global steps that the run's last execution has trained itself."""
    told = json.loads((folder.path / "env.json").read_text())
    return planned.runs[folder].scenario.global_steps - int(told["trained_from"])


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the study is when nothing happens to it; filled by the first test that runs it."""
    return {}


def whole(small: Small, out: Path, studied: dict[str, Any]) -> dict[str, list[bytes]]:
    if not studied:
        planned, result = run(small("per_global_step", STUDY), out)
        assert not result.failed
        studied.update(contents(planned))
    return studied


def test_a_study_is_its_cells_one_by_one(
    small: Small, tmp_path: Path, studied: dict[str, Any]
) -> None:
    found = whole(small, tmp_path / "study", studied)
    planned = plan(small("per_global_step", STUDY), tmp_path / "alone")
    assert set(found) == set(planned.cells)
    assert len(found) == 2 + 2 * 2 + 2 * 2
    for folder, each in planned.runs.items():
        assert each.training is not None
        alone = replace(each, training=replace(each.training, fork=None))
        execute(alone, quiet)
        for cell, same in planned.cells.items():
            if same == folder:
                at = [(folder.path / name).read_bytes() for name in FILES[:-1]]
                assert at == found[cell][:-1], cell
        each.training.clear(quiet)  # the next one finds nothing
    told = json.loads((tmp_path / "study" / "small" / "study.json").read_text())
    skip = "skip, probability=0.6, seed 1"
    assert told["points"][skip] == {
        "arm": "skip",
        "parameters": {"outages.probability": 0.6},
        "seed": 1,
        "control": None,
    }
    assert told["baselines"][skip] == told["cells"]["no_failure, seed 1"]
    assert told["points"]["noise, seed 0"]["control"] == "noise"
    assert (told["arms"], told["seeds"], told["failed"]) == (["skip"], [0, 1], {})
    gap = json.loads(found["depth, seed 0"][-1])["val_loss_gap"]
    assert gap != 0
    assert "label" in json.loads(found[skip][-1])


def test_equal_masks_train_once_other_clocks_or_not(small: Small, tmp_path: Path) -> None:
    """Prices, links and a policy that changes no mask share; what a slot returns with does not."""
    arms = (
        "sweep.arms={cheap: {}, dear: {pools.default.usd_per_h: 9}, "
        "slow: {network.stages.latency_ms: 90}, keep: {train.on_return.adam: keep}, "
        "wait: {recovery.policy: [wait]}}"
    )
    planned, result = run(small("per_global_step", arms), tmp_path)
    key = {cell: planned.runs[folder].training for cell, folder in planned.cells.items()}
    assert key["cheap"] == key["dear"] == key["slow"]
    assert key["keep"] != key["cheap"]
    assert key["wait"] == key["no_failure"]
    trained = sum(trained_steps(planned, folder) for folder in planned.runs)
    assert trained == 6 + (6 - _common(key["cheap"])) + (6 - _common(key["keep"]))
    usd = {cell: result.summaries[cell]["usd"]["total"] for cell in ("cheap", "dear")}
    assert usd["dear"] == pytest.approx(4.5 * usd["cheap"])
    assert result.summaries["slow"]["wall_s"] > result.summaries["cheap"]["wall_s"]
    assert result.summaries["slow"]["val_loss"] == result.summaries["cheap"]["val_loss"]
    assert result.summaries["wait"]["val_loss_gap"] == 0
    again, _ = run(small("per_global_step", arms, "pools.default.usd_per_h=3"), tmp_path)
    assert all(trained_steps(again, folder) == 0 for folder in again.runs)


def _common(training: Any) -> int:
    return 0 if training.fork is None else int(training.fork.at)


@pytest.mark.parametrize("returns", ["{adam: zero}", "{adam: keep, error_feedback: keep}"])
def test_a_fork_is_the_unforked_run_to_the_bit(
    small: Small, tmp_path: Path, returns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ("outages.start_step=3", "outages.probability=0.7", f"train.on_return={returns}")
    forked, result = run(small("per_global_step", *late), tmp_path / "forked")
    training = forked.runs[forked.cells["run"]].training
    assert training is not None
    assert training.fork is not None
    assert training.fork.at >= 3
    assert trained_steps(forked, forked.cells["run"]) == 6 - training.fork.at
    assert not training.fork.is_there, "its state is dropped at the end"
    monkeypatch.setattr(planning, "WORTH_A_FORK", 2.0)
    unforked, expected = run(small("per_global_step", *late), tmp_path / "unforked")
    assert trained_steps(unforked, unforked.cells["run"]) == 6
    assert result.summaries == expected.summaries
    assert contents(forked) == contents(unforked)


def test_a_fork_whose_no_failure_record_was_cut_trains_from_the_start(
    small: Small, tmp_path: Path
) -> None:
    late = ("outages.start_step=3", "outages.probability=0.7")
    planned = plan(small("per_global_step", *late), tmp_path)
    healthy, faulty = (planned.runs[planned.cells[cell]] for cell in ("no_failure", "run"))
    assert healthy.training is not None
    assert faulty.training is not None
    expected = execute(replace(faulty, training=replace(faulty.training, fork=None)), quiet)
    faulty.training.clear(quiet)
    execute(healthy, quiet)
    lines = healthy.training.record.read_text().splitlines(keepends=True)
    healthy.training.record.write_text("".join(lines[:2]))
    told: list[str] = []
    assert execute(faulty, told.append) == expected
    assert any("ends before global step" in text for text in told)


@pytest.mark.parametrize("diverges", ["train.inner.lr: 1e18", "method.outer.lr: 1e18"])
def test_a_cell_that_diverges_fails_alone(small: Small, tmp_path: Path, diverges: str) -> None:
    """In an inner step, or with weights that are finite and of which no evaluation is."""
    sweep = f"sweep={{arms: {{good: {{}}, bad: {{{diverges}}}}}}}"
    short = ("global_steps=2", "train.eval_every=1")
    planned, result = run(small("per_global_step", sweep, *short), tmp_path)
    assert result.exit_code == 1
    assert set(result.summaries) == {"no_failure, good", "good"}
    assert "non-finite" in result.failed["no_failure, bad"]
    told = json.loads((planned.folder / "study.json").read_text())
    assert set(told["failed"]) == {"no_failure, bad", "bad"}


class Killer(Show):
    """Kills a process of the study when the first global step is told."""

    has_killed = False

    def row(self, run: Any, row: dict[str, Any]) -> None:
        if not self.has_killed:
            self.has_killed = True
            multiprocessing.active_children()[0].kill()


def test_a_process_that_dies_fails_what_ran_and_the_rest_goes_on(
    small: Small, tmp_path: Path
) -> None:
    loaded = small("none", "sweep={seeds: 4}", "global_steps=12")
    planned, result = run_study(loaded, tmp_path, 2, Killer(is_quiet=True))
    assert result.exit_code == 1
    assert 1 <= len({planned.cells[cell] for cell in result.failed}) <= 2
    assert all("process died" in told for told in result.failed.values())
    assert len({planned.cells[cell] for cell in result.summaries}) >= 2
    _, result = run(loaded, tmp_path)
    assert not result.failed


def test_a_job_that_stalls_is_told_before_anything_is_trained(small: Small, tmp_path: Path) -> None:
    script = "outages.script.end={replica: 0, stage: 0, gone_s: 0.01}"
    arms = "sweep.arms={bad: {recovery.policy: [wait]}, good: {recovery.policy: [idle]}}"
    planned, result = run(small("script", script, arms), tmp_path)
    assert list(result.failed) == ["bad"]
    assert "good" in result.summaries
    assert not planned.cells["bad"].path.exists()


def test_parts_make_the_whole(small: Small, tmp_path: Path, studied: dict[str, Any]) -> None:
    expected = whole(small, tmp_path / "study", studied)
    loaded = small("per_global_step", STUDY)
    planned = plan(loaded, tmp_path / "parts")
    parts = [Shard(i, 3).runs(planned) for i in (1, 2, 3)]
    assert set.union(*parts) == set(planned.runs)
    assert sum(map(len, parts)) == len(planned.runs)
    for i in (3, 1, 2):
        run(loaded, tmp_path / "parts", Shard(i, 3))
    trained = {folder: trained_steps(planned, folder) for folder in planned.runs}
    assert sum(trained.values()) > 0
    merged, result = run(loaded, tmp_path / "parts")
    assert not result.failed
    assert contents(merged) == expected
    for folder in planned.runs:
        assert trained_steps(planned, folder) in (0, trained[folder])


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be i/n"):
        Shard.of(text)


def _study_in_child(loaded: Loaded, out: Path) -> None:
    run(loaded, out)


def test_kills_and_company_change_nothing(
    small: Small, tmp_path: Path, studied: dict[str, Any]
) -> None:
    """Two commands on the same study, killed now and then: what is finished is trained once."""
    expected = whole(small, tmp_path / "study", studied)
    loaded, out = small("per_global_step", STUDY), tmp_path / "killed"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scenarios.study", "scenarios.run", "trainer.loop"])
    moments = random.Random(1)
    finished: dict[Path, int] = {}
    for _ in range(3):
        children = [context.Process(target=_study_in_child, args=(loaded, out)) for _ in "ab"]
        for child in children:
            child.start()
        time.sleep(moments.uniform(1.0, 2.5))
        for child in children:
            child.kill()
            child.join()
        for done in out.glob(".trained/*/done.json"):
            finished.setdefault(done, done.stat().st_mtime_ns)
    planned, result = run(loaded, out)
    assert not result.failed
    assert contents(planned) == expected
    for done, written in finished.items():
        assert done.stat().st_mtime_ns == written, "trained again"
