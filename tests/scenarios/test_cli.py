"""The command as people use it: output, exit codes, errors without a traceback."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.load import Loaded, bundled, load
from scenarios.plan import plan
from scenarios.record import read_rows

Small = Callable[..., Loaded]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
SHIPPED = sorted(bundled())


@pytest.fixture
def stageout(tmp_path: Path) -> Command:
    """Run the command in an empty folder; `limit_bytes` caps the size of a file."""

    def call(*words: str, limit_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
        def limit() -> None:
            if limit_bytes is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        return subprocess.run(
            [sys.executable, "-m", "scenarios", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            preexec_fn=limit,
            timeout=120,
        )

    return call


def test_a_study_prints_its_table_and_the_second_time_finds_it_finished(
    small: Small, stageout: Command, tmp_path: Path
) -> None:
    file = small("per_global_step").path
    arms = "sweep.arms={skip: {recovery.policy: [skip, idle]}, idle: {recovery.policy: [idle]}}"
    first = stageout("run", str(file), arms, "--jobs", "2")
    assert first.returncode == 0, first.stderr
    for cell in ("no_failure", "skip", "idle"):
        assert cell in first.stdout
        assert f"{cell}: 6/6" in first.stderr
    assert (tmp_path / "runs" / "small" / "report.html").is_file()
    again = stageout("run", str(file), arms, "--json")
    assert again.returncode == 0, again.stderr
    assert "3 of 3 runs finished before" in again.stderr
    told = json.loads(again.stdout)
    assert set(told) == {"no_failure", "skip", "idle"}
    assert told["no_failure"]["val_loss_gap"] == 0
    assert told["idle"]["train_tokens"] < told["skip"]["train_tokens"]


def test_jobs_change_no_result(small: Small, stageout: Command) -> None:
    file = str(small("script").path)
    results = [
        json.loads(stageout("run", file, "--json", "--jobs", n, "--out", f"runs{n}").stdout)
        for n in ("1", "2")
    ]
    assert results[0] == results[1]


def test_an_expectation_that_is_not_met_exits_3(small: Small, stageout: Command) -> None:
    file = str(small("none").path)
    met = stageout("run", file, "--no-train", "expect={usd: '< 5', ettr: '>= 0.999'}")
    assert met.returncode == 0, met.stderr
    missed = stageout("run", file, "--no-train", "expect={val_loss_gap: '< 1', usd: '> 5'}")
    assert missed.returncode == 3
    assert "expected val_loss_gap < 1, found None" in missed.stderr
    assert "expected usd > 5, found 0." in missed.stderr


def test_a_run_that_failed_is_told_before_an_expectation(small: Small, stageout: Command) -> None:
    """Exit 3 says that everything ran; here an arm waits for who never comes back."""
    file = str(small("script").path)
    ends = "outages.script.end={replica: 0, stage: 0, gone_s: 0.01}"
    arms = "sweep.arms={bad: {recovery.policy: [wait]}, good: {recovery.policy: [idle]}}"
    done = stageout("run", file, "--no-train", ends, arms, "expect={usd: '> 5'}", "--jobs", "1")
    assert done.returncode == 1, done.stderr
    assert "expected usd > 5" in done.stderr


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("cluster.replicas=0", "cluster.replicas: must be at least 1 (got 0)"),
        ("cluster.stages=9", "4 layers cannot fill 9 stages"),
        ("outages={kind: per_global_step, probability: 1.5}", "must be at most 1 (got 1.5)"),
        ("outages={kind: per_global_step, probability: .nan}", "must be a finite number"),
        ("name=../../x", "name: "),
        ("train=!!python/object/apply:os.system [id]", "tag"),
        ("pools.default.up_h=3", "is used only with outages.kind: pools"),
        ("pools.default.workers=11", "12 slots (replicas x stages) need at least 12 workers"),
        ("recovery.policy=[skip]", "skip never applies to ends"),
        ("recovery.policy=[wait, skip]", "nothing after wait is ever reached"),
        ("outages={kind: per_global_step, probability: 0.1, stages: [7]}", "the last is 3 (got 7)"),
        ("work.micro_batches=3", "must divide the 8 sequences"),
        ("expect={usd: cheap}", "must be like '< 0.02'"),
        ("sweep.arms={no_failure: {seed: 1}}", "is the name of the no-failure run"),
        ("train.data.path=nowhere", "nowhere"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(
    small: Small, stageout: Command, tmp_path: Path, override: str, told: str
) -> None:
    done = stageout("run", str(small("none").path), override)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert not (tmp_path.parent / "x").exists()


def test_a_folder_that_cannot_be_used_is_one_line(stageout: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in ("file/runs", "/proc/runs"):
        done = stageout("run", "scripted", "--no-train", "--out", out)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert out.split("/")[-2] in done.stderr
    assert stageout("report", "nowhere").returncode == 2


def test_blocks_that_hardly_ever_end_are_refused(small: Small, stageout: Command) -> None:
    shocks = "{every_h: 0.1, share: 1, block_refill_h: 1}"
    pool = f"pools.default={{up_h: 1, outage_h: 1, shocks: {shocks}}}"
    done = stageout("run", str(small("none").path), "outages={kind: pools}", pool, "--dry-run")
    assert done.returncode == 2
    assert "hardly ever end" in done.stderr


def test_damaged_results_are_told_and_force_begins_anew(
    small: Small, stageout: Command, tmp_path: Path
) -> None:
    file = str(small("per_global_step").path)
    whole = stageout("run", file, "--jobs", "1", "--json")
    planned = plan(small("per_global_step"), tmp_path / "runs")
    run, healthy = planned.cells["run"], planned.cells["no_failure"]
    (run.path / "summary.json").write_text("{")
    damaged = stageout("run", file, "--jobs", "1")
    assert damaged.returncode == 1
    assert "damaged" in damaged.stderr
    assert "--force" in damaged.stderr
    (run.path / "summary.json").unlink()
    healthy.metrics.write_text("x")
    damaged = stageout("run", file, "--jobs", "1")
    assert damaged.returncode == 1
    assert "record is damaged" in damaged.stderr
    assert "Traceback" not in damaged.stderr
    forced = stageout("run", file, "--jobs", "1", "--json", "--force")
    assert json.loads(forced.stdout) == json.loads(whole.stdout)


def test_an_empty_corpus_is_told_with_its_path(
    small: Small, stageout: Command, tmp_path: Path
) -> None:
    file = small("none").path
    (tmp_path / "text" / "a.txt").write_text("")
    done = stageout("run", str(file))
    assert done.returncode == 2
    assert str(tmp_path / "text") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_non_finite_loss_stops_the_run_and_keeps_what_is_finished(
    small: Small, stageout: Command, tmp_path: Path
) -> None:
    done = stageout("run", str(small("none").path), "train.inner.lr=1e18", "--jobs", "1")
    assert done.returncode == 1
    assert "global step" in done.stderr
    assert "Traceback" not in done.stderr
    loaded = small("none", "train.inner.lr=1e18")
    folder = next(iter(plan(loaded, tmp_path / "runs").runs))
    assert not folder.is_done


def test_a_full_disk_stops_the_run_and_the_next_one_goes_on(
    small: Small, stageout: Command, tmp_path: Path
) -> None:
    """A cap on file sizes fails writes as a full disk does, midway in a checkpoint or record."""
    loaded = small("none")
    file = str(loaded.path)
    for limit_bytes in (1_000, 3_500, 60_000):
        full = stageout("run", file, "--jobs", "1", limit_bytes=limit_bytes)
        assert full.returncode == 1, full.stderr
        assert "Finished global steps are kept" in full.stderr
        assert "Traceback" not in full.stderr
    training = next(iter(plan(loaded, tmp_path / "runs").runs.values())).training
    assert training is not None
    assert 0 < len(training.rounds()) < 6
    again = stageout("run", file, "--jobs", "1", "--json")
    assert again.returncode == 0, again.stderr
    clean = stageout("run", file, "--jobs", "1", "--json", "--out", "clean")
    assert json.loads(again.stdout) == json.loads(clean.stdout)


def test_an_interrupt_exits_130_and_the_same_command_continues(
    small: Small, tmp_path: Path
) -> None:
    file = str(small("none", "global_steps=2000").path)
    words = [sys.executable, "-m", "scenarios", "run", file, "global_steps=2000", "--jobs", "1"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        words, cwd=tmp_path, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder = next(iter(plan(small("none", "global_steps=2000"), tmp_path / "runs").runs))
    while process.poll() is None and len(list(read_rows(folder.metrics))) < 3:
        pass
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in talk
    assert "Traceback" not in talk
    assert len(list(read_rows(folder.metrics))) >= 3


def test_a_killed_command_leaves_no_process_behind(small: Small, tmp_path: Path) -> None:
    arms = "sweep.arms={a: {recovery.policy: [idle]}, b: {recovery.policy: [wait]}}"
    file = str(small("per_global_step", "global_steps=2000").path)
    words = [sys.executable, "-m", "scenarios", "run", file, arms, "global_steps=2000"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [*words, "--jobs", "2"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    )
    records = tmp_path / "runs" / "small"
    while process.poll() is None and len(list(records.glob("*/metrics.jsonl"))) < 2:
        time.sleep(0.05)
    process.kill()
    # The pipe closes when the last process that could write into it has ended.
    assert process.communicate(timeout=10)[1] is not None
    assert process.returncode == -signal.SIGKILL


def thinned(name: str) -> list[str]:
    """Overrides that leave one point and seed of a study."""
    sweep = load(name, []).scenario.sweep
    return ["sweep.parameters=null", "sweep.seeds=1"] if sweep and sweep.parameters else []


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_previews_fast_and_without_torch(
    stageout: Command, name: str
) -> None:
    code = (
        "import sys; sys.argv = ['stageout', 'run', *sys.argv[1:], '--dry-run', '--json']\n"
        "from scenarios.cli import main\ntry: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'pandas', 'matplotlib', 'tokenizers', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name, *thinned(name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    is_paid = any(pool.usd_per_h for pool in load(name, []).scenario.pools.values())
    for cell, numbers in told["cells"].items():
        assert numbers["simulated"]["hours"] > 0, cell
        assert (numbers["simulated"]["usd"] > 0) == is_paid, cell


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_runs(stageout: Command, name: str) -> None:
    """Its whole clock; training is covered by the small scenarios and by the quickstart."""
    done = stageout("run", name, *thinned(name), "--no-train", "--jobs", "1", "--json")
    assert done.returncode == 0, done.stderr
    for cell, summary in json.loads(done.stdout).items():
        total_s = sum(summary["slot_s"].values())
        slots = summary["replicas"] * summary["stages"]
        assert total_s == pytest.approx(slots * summary["wall_s"]), cell


def test_the_blog_preview_tells_the_published_arithmetic(stageout: Command) -> None:
    done = stageout("run", "blog", "--dry-run", "--json")
    numbers = json.loads(done.stdout)["cells"]["run"]
    assert numbers["expected"]["degraded_share"] == pytest.approx(0.0571, abs=5e-5)
    assert numbers["workers"] == 32
    assert numbers["bytes_per_hop_and_inner_step"] == 32 * 2048 * 1024 * 2
    assert numbers["timed_parameters"] == pytest.approx(177.62e6, rel=1e-4)
    assert numbers["tokens"] == pytest.approx(3.552e9, rel=1e-3)
    words = stageout("run", "blog", "--dry-run").stdout
    assert "degraded share 5.71%" in words
    assert "trains 2 runs" in words


def test_check_prints_the_resolved_scenario_and_schema(stageout: Command) -> None:
    checked = stageout("check", "quickstart")
    assert checked.returncode == 0, checked.stderr
    assert "on_return:" in checked.stdout
    assert "beta1: 0.9" in checked.stdout
    assert "degraded share 24.00%" in checked.stderr
    schema = json.loads(stageout("check", "--schema").stdout)
    assert "recovery" in schema["properties"]
    assert stageout("check").returncode == 2


def test_help_teaches(stageout: Command) -> None:
    told = stageout("--help")
    assert told.returncode == 0
    for word in ("run", "check", "report", "Exit codes", "simulated"):
        assert word in told.stdout
    assert "--dry-run" in stageout("run", "--help").stdout
    wrong = stageout("run", "quickstrt")
    assert wrong.returncode == 2
    assert "quickstart" in wrong.stderr
