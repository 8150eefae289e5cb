"""The page of a study: complete, safe, self-contained, also of half a study."""

from __future__ import annotations

import csv
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis import report, study_report
from analysis.folders import find
from analysis.report import write_report
from analysis.sweep import sweep_of
from tests import chromium
from tests.analysis.fake_study import SKIP, FakeStudy
from tests.analysis.test_report import Page


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, which take most of the time."""
    monkeypatch.setattr(study_report, "sections", lambda study, sweep: [])
    monkeypatch.setattr(report, "sections", lambda study: ([], []))


def text_of(path: Path) -> str:
    """What a reader sees."""
    plain = Page(path.read_text("utf-8")).text.replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\s+", " ", plain)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("light_figures")
def test_the_report_of_a_study(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.0, 0.05, 0.4), global_steps=10).write(tmp_path / "study")
    (made / "figures").mkdir()
    for name in ("loss_vs_failure_rate_old.png", "gap.svg", "clock_vs_rate.svg", "mine.png"):
        (made / "figures" / name).write_bytes(b"")
    path = write_report(made)
    text, plain = path.read_text("utf-8"), text_of(path)
    page = Page(text)
    # the finding first, then the figure, then the tables
    assert plain.index("over 3 seeds: skip cannot be told") < plain.index("The points")
    assert text.index("loss_vs_failure_rate.png") < text.index("The points")
    for label in ("3 seeds", "proxy: another model is timed"):
        assert f'<span class="label">{label}</span>' in text
    for kind in ("measured", "simulated", "assumed", "chosen", "recorded", "swept"):
        assert ("span", {"class": f"tag {kind}"}) in page.tags
    for needed in ("outages.probability 0, 0.05, 0.4 swept", "seed 0, 1, 2 swept",
                   "recovery.policy[skip, idle][idle]", "train.jitter 1e-05",
                   "counting pairs of tokens (bigrams)4.020", "time here: of all runs train",
                   "skip - idle5 %3-0.090", "skip ended lower", "no difference can be told",
                   "text.unigram_nats 5.61 recorded"):  # fmt: skip
        assert needed in plain
    # figures are there, inline and as files; those of an earlier report went
    stems = {file.stem for file in (made / "figures").iterdir()}
    drawn = {"loss_vs_failure_rate", "training", "loss_vs_tokens", "loss_vs_hours",
             "loss_vs_dollars", "lean_vs_rate", "clock_vs_rate", "loss_vs_cost",
             "timeline-skip__probability_0_4__seed_0",
             "timeline-idle__probability_0_4__seed_0"}  # fmt: skip
    assert stems == drawn | {"mine"}
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == len(drawn)
    # nothing from outside, nothing that runs
    assert all(str(image["src"]).startswith("data:image/svg+xml;base64,") for image in images)
    assert not re.search(r"""(src|href|url|action)\s*[=(]\s*["']?\s*(https?:)?//""", text)
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "base"} == set()


@pytest.mark.usefixtures("_plain")
def test_half_a_study_reports_what_there_is(tmp_path: Path) -> None:
    missing = [f"skip, probability=0.4, seed {seed}" for seed in range(3)]
    failed = {"idle, probability=0.4, seed 1": "global step 7: the loss is <b>not</b> finite"}
    made = FakeStudy(rates=(0.05, 0.4), global_steps=5, missing=missing, failed=failed)
    folder = made.write(tmp_path / "study")
    plain = text_of(write_report(folder))
    assert "partial: 23 of 27 cells have finished" in plain
    assert "Failed: idle, probability=0.4, seed 1: global step 7: the loss is <b>not" in plain
    assert f"Not finished and left out of everything here: {'; '.join(missing)}." in plain
    assert "idle40 %2 of 3" in plain
    assert "skip40 %0 of 3--" in plain
    cells = {row["cell"]: row for row in rows_of(folder / "cells.csv")}
    assert cells[missing[0]]["standing"] == "not finished"
    assert cells["idle, probability=0.4, seed 1"]["standing"] == "failed"
    assert cells["idle, probability=0.4, seed 1"]["failed"].startswith("global step 7")


@pytest.mark.usefixtures("_plain")
def test_a_study_without_a_finished_arm_reports_its_controls(tmp_path: Path) -> None:
    missing = [f"{arm}, probability=0.05, seed {seed}" for arm in ("skip", "idle")
               for seed in range(3)]  # fmt: skip
    made = FakeStudy(rates=(0.05,), global_steps=5, missing=missing).write(tmp_path / "study")
    assert "noise floor: repeats without failures differ" in text_of(write_report(made))


@pytest.mark.usefixtures("_plain")
def test_the_tables_are_tidy_and_full(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.05, 0.15), lengths=(2, 6), global_steps=5).write(tmp_path / "study")
    write_report(made)
    sweep = sweep_of(find(made))
    assert sweep is not None
    cells = rows_of(made / "cells.csv")
    assert [row["cell"] for row in cells] == [cell.label for cell in sweep.cells]
    for row, cell in zip(cells, sweep.cells, strict=True):
        assert cell.entry is not None
        assert float(row["val_loss_gap"]) == cell.entry.summary["val_loss_gap"]
        assert float(row["usd.total"]) == cell.entry.summary["usd"]["total"]
        assert (row["arm"], int(row["seed"])) == (cell.arm or "", cell.seed)
        assert row["outages.probability"] == str(cell.parameters.get("outages.probability", ""))
    points = rows_of(made / "points.csv")
    assert [row["control"] for row in points] == [""] * 8 + ["no_failure"] + ["noise", "noise",
                                                              "depth", "depth"]  # fmt: skip
    for row, point in zip(points, sweep.points, strict=False):
        told = point.interval()
        assert told is not None
        assert told.half_width is not None
        assert float(row["gap"]) == told.mean
        assert float(row["gap_high"]) == told.mean + told.half_width
        assert (row["n"], row["planned"]) == ("3", "3")
    differences = rows_of(made / "differences.csv")
    assert len(differences) == 4
    assert {row["first"] for row in differences} == {"skip"}
    assert all(float(row["difference_low"]) < float(row["difference"]) for row in differences)


@pytest.mark.usefixtures("light_figures")
def test_names_from_files_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    arms = {evil: ("skip", SKIP), '"><img src=x onerror=alert(1)>': ("idle", SKIP)}
    failed = {f"{evil}, probability=0.05, seed 1": evil}
    made = FakeStudy(arms, rates=(0.05,), global_steps=2, failed=failed, name=f"</title>{evil}")
    folder = made.write(tmp_path / "study")
    text = write_report(folder).read_text("utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert html.escape(evil) in text
    assert evil not in text
    images: list[dict[str, Any]] = [attrs for tag, attrs in page.tags if tag == "img"]
    assert all(set(image) == {"alt", "src"} for image in images)
    assert all(path.parent == folder / "figures" for path in (folder / "figures").rglob("*"))
    # again: the same bytes
    files = [file for file in folder.rglob("*") if file.parent.name in ("study", "figures")]
    before = {file: file.read_bytes() for file in files if file.is_file()}
    write_report(folder)
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.usefixtures("_plain")
def test_a_run_of_a_study_has_its_own_report(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.05,), global_steps=5).write(tmp_path / "study")
    sweep = sweep_of(find(made))
    assert sweep is not None
    run = sweep.points[1].done[0].entry
    assert run is not None
    assert "idle, probability=0.05, seed 0 ended 0.0" in text_of(write_report(run.path))


@pytest.mark.usefixtures("_plain")
def test_the_bill_names_each_arm_s_own_no_failure_run(tmp_path: Path) -> None:
    def bill(folder: Path) -> str:
        text = text_of(write_report(folder))
        return text[text.index("For the same global steps") :].split("assumed below")[0]

    made = FakeStudy(offsets={"idle": 0.3})
    folder = made.write(tmp_path)
    assert "and no failure 0.861 hours and $25.44, at the prices" in bill(folder)
    for seed in made.seeds:
        file = folder / made.told["cells"][f"no_failure:idle, seed {seed}"] / "summary.json"
        summary = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps(summary | {"wall_s": 7200.0}), "utf-8")
    assert "at 40 % (0.861 hours and $25.44 without failures)" in bill(folder)
    assert "at 40 % (2.00 hours and $25.44 without failures)" in bill(folder)


@pytest.mark.skipif(chromium.PROGRAM is None, reason="no chromium on this machine")
@pytest.mark.usefixtures("light_figures")
def test_a_browser_asks_for_nothing_complains_of_nothing_and_shows_all_of_it(
    tmp_path: Path,
) -> None:
    arms = {"a" * 60: ("skip", SKIP), "b" * 60: ("idle", SKIP)}
    made = FakeStudy(arms, rates=(0.05, 0.4), global_steps=5).write(tmp_path / "study")
    path = write_report(made)
    for width in (1280, 400):
        with chromium.Page(path, width) as page:
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                      deviceScaleFactor=1, mobile=False)  # fmt: skip
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("[...document.images].every((one) => one.naturalWidth > 0)")
            outside = [url for url in page.requests if not url.startswith("data:image/svg+xml")]
            assert outside == [page.url]
            assert page.complaints == []
