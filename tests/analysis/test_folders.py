"""Finding runs: what a folder must hold, what is said when it does not, and the plain table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import folders
from analysis.folders import AnalysisError, find, read_summary
from analysis.table import table, text_of

Study = Callable[..., Path]
ROOT = Path(__file__).parent.parent.parent


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def run_folder(folder: Path, cell: str) -> Path:
    return folder / str(json.loads((folder / "study.json").read_text())["cells"][cell])


@pytest.fixture
def folder(study: Study, three: Any) -> Path:
    return study(three(global_steps=5))


def test_a_study_lists_its_no_failure_run_first(study: Study, fake: Any) -> None:
    listing = find(study([fake("skip"), fake("no_failure", "none")]))
    assert [(e.cell, e.is_baseline, e.baseline) for e in listing.entries] == [
        ("no_failure", True, "no_failure"),
        ("skip", False, "no_failure"),
    ]


def test_a_run_folder_stands_beside_its_no_failure_run(folder: Path) -> None:
    listing = find(run_folder(folder, "idle"))
    assert [e.cell for e in listing.entries] == ["no_failure", "idle"]
    assert listing.folder == run_folder(folder, "idle")


def test_a_run_folder_alone(folder: Path) -> None:
    idle = run_folder(folder, "idle")
    (folder / "study.json").unlink()
    listing = find(idle)
    assert [(e.cell, e.baseline) for e in listing.entries] == [("idle", None)]


def test_run_folders_of_earlier_runs_are_ignored(folder: Path, fake: Any) -> None:
    fake("old").write(folder / "0123456789ab-s0")
    assert "old" not in [e.cell for e in find(folder).entries]


def test_two_cells_that_are_one_run_are_listed_once(folder: Path) -> None:
    told = json.loads((folder / "study.json").read_text())
    told["cells"]["healthy"] = told["baselines"]["healthy"] = told["cells"]["no_failure"]
    (folder / "study.json").write_text(json.dumps(told))
    first, *others = find(folder).entries
    assert (first.cell, first.aliases, first.is_baseline) == ("no_failure", ("healthy",), True)
    assert len(others) == 2


def test_unfinished_runs_are_left_out_and_told(folder: Path) -> None:
    (run_folder(folder, "skip") / "summary.json").unlink()
    listing = find(folder)
    assert listing.unfinished == ("skip",)
    assert [e.cell for e in listing.entries] == ["no_failure", "idle"]
    assert "not finished, left out: skip" in table(folder)


def test_arms_are_told_without_their_no_failure_run(folder: Path) -> None:
    (run_folder(folder, "no_failure") / "summary.json").unlink()
    assert [(e.cell, e.is_baseline) for e in find(folder).entries] == [
        ("skip", False),
        ("idle", False),
    ]


# --- errors name the file and the cure -------------------------------------------------------


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"nowhere: no such folder; give runs/<name>"):
        find(tmp_path / "nowhere")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"neither a study .* nor a run .* run the scenario"):
        find(tmp_path)


def test_nothing_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in folder.glob("*/summary.json"):
        path.unlink()
    with pytest.raises(AnalysisError, match=r"no finished run \(no_failure; skip; idle not done\)"):
        find(folder)
    with pytest.raises(AnalysisError, match=r"not finished .* `stageout run` .* goes on"):
        find(run_folder(folder, "skip"))
    monkeypatch.setattr(folders, "NAMED", 2)  # of thousands, some
    with pytest.raises(AnalysisError, match=r"\(no_failure; skip and 1 more not done\)"):
        find(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a"}', '{"a": NaN}', '{"a": 1}\x00'])
def test_a_broken_study_json(folder: Path, text: str) -> None:
    (folder / "study.json").write_text(text)
    with pytest.raises(AnalysisError, match=r"study\.json: .* with --force"):
        find(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"wall_s": NaN}', "{}"])
def test_a_broken_summary(folder: Path, text: str) -> None:
    path = run_folder(folder, "skip") / "summary.json"
    path.write_text(text)
    with pytest.raises(AnalysisError, match=r"summary\.json: .* with --force"):
        find(folder)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"wall_s": "long"}, r"wall_s must be a number \(got 'long'\)"),
        ({"wall_s": 0}, "wall_s and global_steps must be above 0"),
        ({"val_loss": True}, r"val_loss must be a number \(got True\)"),
        ({"label": None}, r"label must be text \(got None\)"),
        ({"usd": {"compute": 1.0}}, r"usd.egress must be a number \(got None\)"),
        ({"slot_s": 3}, r"slot_s must be a map \(got 3\)"),
        ({"skip_stage_loss": [1.0]}, "skip_stage_loss must be a map or null"),
        ({"skip_stage_loss": {"<b>": 1.0}}, "skip_stage_loss: '<b>' is no stage"),
    ],
)
def test_a_wrong_value_in_a_summary(folder: Path, changes: dict[str, Any], what: str) -> None:
    path = run_folder(folder, "skip")
    rewrite(path / "summary.json", **changes)
    with pytest.raises(AnalysisError, match=what):
        read_summary(path)


@pytest.mark.parametrize("name", ["../../x", "..", ".", "", "/etc", "a/b", "a\\b", ".hidden", 3])
def test_a_run_folder_must_lie_in_the_study(folder: Path, name: object) -> None:
    told = json.loads((folder / "study.json").read_text())
    told["cells"]["skip"] = name
    (folder / "study.json").write_text(json.dumps(told))
    with pytest.raises(AnalysisError, match="is no name of a run folder"):
        find(folder)


def test_a_link_must_not_lead_out_of_the_study(folder: Path, tmp_path: Path) -> None:
    run_folder(folder, "skip").rename(tmp_path / "elsewhere")
    run_folder(folder, "skip").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AnalysisError, match="leads out of the study folder"):
        find(folder)


# --- the table -------------------------------------------------------------------------------


def test_the_table_shows_the_summaries(folder: Path) -> None:
    summary = read_summary(run_folder(folder, "idle"))
    lines = table(folder).splitlines()
    assert re.split(r" {2,}", lines[0]) == [
        "arm",
        "val loss",
        "bits/byte",
        "gap",
        "train tokens",
        "full-depth share",
        "simulated hours",
        "dollars",
    ]
    shown = next(line for line in lines if line.startswith("idle")).split()
    assert shown[1] == f"{summary['val_loss']:.3f}"
    assert shown[2] == f"{summary['val_bits_per_byte']:.3f}"
    assert shown[3] == f"{summary['val_loss_gap']:+.3f}" == "+0.083"
    assert shown[4] == f"{summary['train_tokens']:,}"
    assert shown[5] == f"{100 * summary['full_depth_token_share']:.0f}"
    assert float(shown[7]) == pytest.approx(summary["wall_s"] / 3600, rel=5e-3)
    assert shown[8] == f"${summary['usd']['total']:.2f}"
    assert lines[-2:] == ["(one seed, not evidence)", "(proxy: another model is timed)"]


def test_the_table_of_a_timing_study_has_no_losses(study: Study, three: Any) -> None:
    text = table(study(three(global_steps=3, trains=False)))
    assert "loss" not in text
    assert text.splitlines()[0].split()[:4] == ["arm", "tokens", "tokens/s", "ETTR"]


def test_a_hostile_name_stays_on_its_line(study: Study, fake: Any) -> None:
    folder = study(
        [fake("no_failure", "none", global_steps=2), fake("a\n\x1b[31mb", global_steps=2)]
    )
    text = text_of(find(folder))
    assert "a??[31mb" in text
    assert "\x1b" not in text


def test_the_table_needs_the_standard_library_only(folder: Path) -> None:
    code = (
        "import sys; from analysis.table import table; table(sys.argv[1]);"
        "print([m for m in ('numpy', 'pandas', 'matplotlib', 'pyarrow', 'yaml', 'jinja2', 'torch')"
        " if m in sys.modules])"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
