"""The page as a whole: safe, self-contained, complete, the same each time."""

from __future__ import annotations

import csv
import hashlib
import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis import report
from analysis.folders import read_summary
from analysis.report import AnalysisError, write_report

Make = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("light_figures")
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Tags and attributes of a page; balanced or it fails."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, which take most of the time."""
    monkeypatch.setattr(report, "sections", lambda study: ([], []))


def hashes(folder: Path) -> dict[str, str]:
    files = [folder / "report.html", folder / "summary.csv", *(folder / "figures").iterdir()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_the_report_of_the_quickstart(study: Make, three: Any) -> None:
    folder = study(three())
    path = write_report(folder)
    assert path == folder / "report.html"
    text = path.read_text("utf-8")
    page = Page(text)
    plain = re.sub(r"\s+", " ", page.text.replace("\N{NO-BREAK SPACE}", " "))
    # the finding first, with its numbers
    assert plain.index("skip ended 0.012 nats above") < plain.index("The runs")
    for label in ("one seed, not evidence", "proxy: another model is timed"):
        assert label in plain
    for kind in ("measured", "simulated", "assumed", "chosen", "recorded"):
        assert ("span", {"class": f"tag {kind}"}) in page.tags
    # the table is the summaries
    for run in sorted(folder.glob("*-s0")):
        summary = read_summary(run)
        row = " ".join((
            summary["cell"],
            f"{summary['val_loss']:.3f}",
            f"{summary['val_bits_per_byte']:.3f}",
            f"{summary['val_loss_gap']:+.3f}" if summary["val_loss_gap"] else "0",
            f"{summary['train_tokens'] / 1e6:.2f}M",
            f"{100 * summary['full_depth_token_share']:.0f} %",
            f"{summary['wall_s'] / 3600:.2f}",
            f"${summary['usd']['total']:.2f}",
        ))  # fmt: skip
        cells = re.findall(r"<tr>.*?</tr>", text, re.DOTALL)
        shown = [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]
        assert row in shown
        # how much the network leans on each inner stage
        rise = summary["skip_stage_loss"]["1"] - summary["val_loss"]
        assert f"{rise:+.3f}" in plain
    # inputs with provenance, definitions
    for needed in ("outages.probability 0.05 assumed", "pools.default.usd_per_h 0.92 assumed",
                   "corpus.sha256 " + "cd" * 32, "versions.torch 2.13.0+cpu", "seed 0 chosen",
                   "recovery.policy[skip, idle][idle]", "ETTRSeconds the no-failure run",
                   "full-depth share", "Validation loss minus that of"):  # fmt: skip
        assert needed in plain
    # figures are there, inline and as files
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 8
    assert all(image["alt"] for image in images)
    stems = {path.stem for path in (folder / "figures").iterdir()}
    assert stems == {"loss_vs_tokens", "loss_vs_hours", "loss_vs_dollars", "loss", "gap",
                     "timeline-skip", "timeline-idle", "slot_hours", "bill"}  # fmt: skip
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".png", ".svg"}

    # nothing from outside, nothing that runs
    assert not re.search(r"""(src|href|url|action)\s*[=(]\s*["']?\s*(https?:)?//""", text)
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"} == set()
    assert all(str(image["src"]).startswith("data:image/svg+xml;base64,") for image in images)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)

    # again: the same bytes
    before = hashes(folder)
    write_report(folder)
    assert hashes(folder) == before


def test_names_from_files_are_escaped(study: Make, fake: Any) -> None:
    evil = "<script>alert(1)</script>"
    arms = [
        fake("no_failure", "none", global_steps=5, name="q"),
        fake(evil, global_steps=5, name="q", label=f"one seed {evil}"),
        fake('"><img src=x onerror=alert(1)>', "idle", global_steps=5, name="q"),
    ]
    folder = study(arms)
    told = json.loads((folder / "study.json").read_text())
    told["name"] = f"</title>{evil}"
    (folder / "study.json").write_text(json.dumps(told))
    scenario = folder / told["cells"][evil] / "scenario.yaml"
    scenario.write_text(scenario.read_text() + f"'{evil}': '{evil}'\n")
    text = write_report(folder).read_text("utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert html.escape(evil) in text
    assert evil not in text
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert all(set(image) == {"alt", "src"} for image in images)
    assert all(path.parent == folder / "figures" for path in (folder / "figures").rglob("*"))


@pytest.mark.usefixtures("_plain")
def test_a_report_of_a_run_folder(study: Make, three: Any) -> None:
    folder = study(three(global_steps=10)) / "000000000002-s0"
    path = write_report(folder)
    assert path == folder / "report.html"
    assert "idle ended 0.083" in path.read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ")


def test_a_timing_report_has_no_loss_figures(study: Make, three: Any) -> None:
    folder = study(three(trains=False, global_steps=10))
    text = write_report(folder).read_text("utf-8")
    assert "Tokens and dollars against time" in text
    assert "leans on each inner stage" not in text
    assert not list((folder / "figures").glob("loss*"))


@pytest.mark.usefixtures("_plain")
def test_unfinished_runs_are_said_aloud(study: Make, three: Any) -> None:
    folder = study(three(global_steps=5))
    (folder / "000000000001-s0" / "summary.json").unlink()
    text = write_report(folder).read_text("utf-8")
    assert "Not finished and left out of everything here: skip." in text


@pytest.mark.usefixtures("_plain")
def test_figures_of_an_earlier_report_go_and_foreign_files_stay(study: Make, three: Any) -> None:
    folder = study(three(global_steps=5))
    (folder / "figures").mkdir()
    for name in ("timeline-old.png", "loss_vs_old.svg", "mine.png"):
        (folder / "figures" / name).write_bytes(b"")
    write_report(folder)
    names = {path.name for path in (folder / "figures").iterdir()}
    assert "mine.png" in names
    assert not names & {"timeline-old.png", "loss_vs_old.svg"}


@pytest.mark.usefixtures("_plain")
def test_summary_csv_is_tidy_and_full(study: Make, fake: Any) -> None:
    arms = [fake("no_failure", "none", global_steps=5), fake("=1+1", global_steps=5)]
    folder = study(arms)
    write_report(folder)
    with (folder / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["cell"] for row in rows] == ["no_failure", "'=1+1"]
    summary = read_summary(folder / "000000000001-s0")
    assert float(rows[1]["val_loss"]) == summary["val_loss"]
    assert float(rows[1]["val_loss_gap"]) == summary["val_loss_gap"]
    assert float(rows[1]["slot_s.compute"]) == summary["slot_s"]["compute"]
    assert float(rows[1]["usd.total"]) == summary["usd"]["total"]
    assert rows[1]["policy"] == "skip idle"
    assert rows[0]["mean_outage_s"] == ""


def test_nothing_is_written_for_a_broken_run(study: Make, three: Any) -> None:
    folder = study(three(global_steps=5))
    (folder / "000000000001-s0" / "steps.parquet").write_bytes(b"PAR1")
    with pytest.raises(AnalysisError):
        write_report(folder)
    assert not (folder / "report.html").exists()
    assert not (folder / "figures").exists()
