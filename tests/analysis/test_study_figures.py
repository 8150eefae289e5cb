"""Figures and words of studies in every situation; the axes and regimes that they are read by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import cost, flagship, grids, rates, seeds, study_report, study_words, style
from analysis.families import Family, depths
from analysis.flagship import Clock, clock_of
from analysis.folders import find
from analysis.load import Study, without_timelines
from analysis.regimes import REGIMES
from analysis.stats import Interval
from analysis.style import Drawn
from analysis.sweep import Sweep, sweep_of
from tests.analysis.fake_study import RATE, SKIP, FakeStudy

pytestmark = pytest.mark.usefixtures("_no_ink")
Loaded = tuple[Study, Sweep]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def _no_ink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not rendered, which takes most of the time; their texts are kept."""

    def render(figure: Figure, stem: str, caption: str, alt: str) -> Drawn:
        shown = [text.get_text() for text in figure.findobj(Text)]
        return Drawn(stem, "\n".join(shown).encode(), b"", caption, alt)

    monkeypatch.setattr(style, "render", render)


def loaded(made: FakeStudy, folder: Path) -> Loaded:
    listing = find(made.write(folder / "study"))
    sweep = sweep_of(listing)
    assert sweep is not None
    return without_timelines(listing), sweep


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The pilot's sizes: two arms, five rates, three seeds; only to be read."""
    return loaded(FakeStudy(), tmp_path_factory.mktemp("runs"))


def draw(study: Study, sweep: Sweep) -> dict[str, Drawn]:
    found = [
        *flagship.flagship(study, sweep),
        *grids.points_figure(sweep),
        *grids.heat_figure(sweep),
        *seeds.training_figures(study, sweep),
        *rates.lean_figure(sweep),
        *rates.clock_figure(sweep),
        *cost.cost_figure(sweep),
    ]
    assert all(figure.caption and figure.alt for figure in found)
    return {figure.stem: figure for figure in found}


def texts(figure: Drawn) -> str:
    return " ".join(figure.svg.decode().replace("\N{NO-BREAK SPACE}", " ").split())


def words(study: Study, sweep: Sweep) -> list[str]:
    found = study_words.finding(study, sweep) + study_words.caution(study, sweep)
    return [f"{sentence.kind}: {sentence.text}" for sentence in found]


CURVES = ["training", "loss_vs_tokens", "loss_vs_hours", "loss_vs_dollars"]


@pytest.mark.parametrize(
    ("changes", "stems"),
    [
        ({}, ["loss_vs_failure_rate", *CURVES, "lean_vs_rate", "clock_vs_rate", "loss_vs_cost"]),
        ({"seeds": (0,), "controls": ()}, ["loss_vs_failure_rate", *CURVES, "lean_vs_rate",
                                           "clock_vs_rate", "loss_vs_cost"]),
        ({"rates": (0.05, 0.15), "lengths": (2, 6)},
         ["loss_vs_failure_rate", "gap_map", *CURVES, "lean_vs_rate", "clock_vs_rate",
          "loss_vs_cost"]),
        ({"rates": ()}, ["gap_by_point", *CURVES]),
        ({"rates": (), "lengths": (2, 6)}, ["loss_vs_parameter", *CURVES, "lean_vs_rate",
                                            "clock_vs_rate", "loss_vs_cost"]),
        ({"more": {"trains": False}, "controls": ()}, ["clock_vs_rate"]),
        ({"more": {"price": 0.0}}, ["loss_vs_failure_rate", *CURVES[:3], "lean_vs_rate",
                                    "clock_vs_rate"]),
    ],
)  # fmt: skip
def test_every_figure_in_every_situation(
    changes: dict[str, Any], stems: list[str], tmp_path: Path
) -> None:
    study, sweep = loaded(
        FakeStudy(**{"global_steps": 5, "rates": (0.0, 0.05)} | changes), tmp_path
    )
    figures = draw(study, sweep)
    assert list(figures) == stems
    sure = "one seed, not evidence" if changes.get("seeds") else "95 % interval"
    assert all(sure in texts(f) or stem == "loss_vs_cost" for stem, f in figures.items())
    assert words(study, sweep)


def test_without_a_finished_arm_there_is_no_empty_figure(tmp_path: Path) -> None:
    missing = [f"skip, probability={rate}, seed {seed}" for rate in (0.05, 0.4) for seed in (0, 1)]
    arms = {"skip": ("skip", SKIP)}
    made = FakeStudy(arms, (0.05, 0.4), seeds=(0, 1), global_steps=5, missing=missing)
    assert draw(*loaded(made, tmp_path)) == {}


def test_what_a_figure_leaves_out_is_told(tmp_path: Path) -> None:
    many = {f"arm{k}": ("skip", SKIP) for k in range(8)}
    short = {"global_steps": 5, "seeds": (0,), "controls": ()}
    figures = draw(*loaded(FakeStudy(many, rates=(0.0, 0.05), **short), tmp_path / "a"))
    for stem in ("loss_vs_failure_rate", "lean_vs_rate", "clock_vs_rate", "loss_vs_cost"):
        assert "2 more lines are not drawn" in texts(figures[stem]), stem
    assert "4 more arms are not drawn" in texts(figures["training"])
    five = dict(list(many.items())[:5])
    made = FakeStudy(five, rates=(0.05, 0.4), lengths=(2, 6, 9, 12), **short)
    study, sweep = loaded(made, tmp_path / "b")
    figures = draw(study, sweep)
    assert "1 more arm is not drawn" in texts(figures["gap_map"])
    cut = "1 more arm is not drawn 2 more points are not drawn"
    assert cut in texts(figures["training"])
    told = words(study, sweep)
    assert "14 more lines: see the table." in "".join(told)
    assert "7 more pairs of arms: see the table." in "".join(told)


def test_a_number_that_repeats_differ_by_as_well_is_grey(tmp_path: Path) -> None:
    """Its interval may leave zero out by luck; words, table and map go by one rule."""
    made = FakeStudy(rates=(0.05, 0.15), lengths=(2, 6), global_steps=5)
    _, sweep = loaded(made, tmp_path)
    colours: dict[str, Any] = {}

    def render(figure: Figure, stem: str, caption: str, alt: str) -> Drawn:
        colours.update((text.get_text(), text.get_color()) for text in figure.findobj(Text))
        return Drawn(stem, b"", b"", caption, alt)

    noise = mock.patch.object(Sweep, "noise", return_value=9.0)
    with noise, mock.patch.object(style, "render", render):
        grids.heat_figure(sweep)
    gaps = [colour for text, colour in colours.items() if "±" in text and "half" not in text]
    assert len(gaps) == 8
    assert set(gaps) <= {style.FAINT, "white"}


def test_the_flagship_carries_its_controls(full: Loaded) -> None:
    study, sweep = full
    found = flagship.flagship(study, sweep)[0]
    told = texts(found)
    ((_, depth),) = depths(sweep)
    for needed in ("losses per inner-slot-hour, at 2.58 min a round (simulated)",
                   "hostile-spot, 77 % in bulk", f"up to {sweep.noise():.3f}",
                   f"{depth.mean:+.3f}", "realised share of replica-rounds degraded",
                   "faint points: seeds", "dark came alone"):  # fmt: skip
        assert needed in told
    assert "Gap at 40 %: skip +0.1" in told
    assert "p / 2 / hours of a round" in found.caption
    notes = rates.degraded_notes(sweep, rates.Axis("outages.probability", (0.0, 0.4)))
    assert notes[0.0] == "0 %"
    shares = [cell.entry.summary["degraded_share"] for cell in sweep.points[-1].done if cell.entry]
    assert notes[0.4] == f"{100 * np.mean(shares):.0f} %"


def test_repeats_stand_at_no_failures_where_that_was_not_swept(tmp_path: Path) -> None:
    study, sweep = loaded(FakeStudy(rates=(0.05, 0.4), global_steps=5), tmp_path)
    assert " 0 % 5 %" in texts(flagship.flagship(study, sweep)[0])


def test_the_axis_says_whose_rounds_it_is_by_where_arms_differ(tmp_path: Path) -> None:
    """A codec makes rounds shorter: one rate of losses is then another chance a round."""
    arms = {"skip": ("skip", SKIP), "shared": ("skip", SKIP)}
    made = FakeStudy(arms, offsets={"shared": 0.3}, rates=(0.05, 0.4), global_steps=5)
    study, sweep = loaded(made, tmp_path)
    for cell in sweep.cells:
        if cell.label.startswith("no_failure:shared") and cell.entry is not None:
            cell.entry.summary["wall_s"] *= 0.8  # type: ignore[index]
    told = texts(flagship.flagship(study, sweep)[0])
    assert "at 2.58 min (skip; all arms 2.07 to 2.58 min) a round (simulated)" in told
    clock = clock_of(study, sweep)
    assert clock is not None
    assert clock.per_hour(0.4) == pytest.approx(0.4 / 2 / (clock.all_s[1] / 3600))


@pytest.mark.parametrize(("round_s", "hours"), [(60.0, 3.33), (1200.0, 66.7)])
def test_losses_per_hour_are_those_of_the_published_point(round_s: float, hours: float) -> None:
    """1 % on two inner stages: 3.3 h up at rounds of a minute, 67 h at 20 minutes."""
    assert 1 / Clock(2, round_s, True).per_hour(0.01) == pytest.approx(hours, rel=0.01)


@pytest.mark.parametrize(
    ("stages", "slots", "is_inner"),
    [("inner", 2, True), ("ends", 2, False), ("all", 4, False), ([1], 1, False)],
)
def test_the_clock_knows_which_slots_can_be_lost(
    stages: Any, slots: int, is_inner: bool, tmp_path: Path
) -> None:
    law = {"kind": "per_global_step", "probability": 0.05, "duration_global_steps": 6,
           "stages": stages}  # fmt: skip
    made = FakeStudy(rates=(0.05,), controls=(), global_steps=2, more={"changes": {"outages": law}})
    assert clock_of(*loaded(made, tmp_path)) == Clock(slots, 155.0, is_inner)


def test_there_is_no_clock_for_other_kinds_of_outages(tmp_path: Path) -> None:
    more = {"changes": {"outages": {"kind": "pools"}}}
    made = FakeStudy(rates=(0.05, 0.4), controls=(), global_steps=2, more=more)
    study, sweep = loaded(made, tmp_path)
    assert clock_of(study, sweep) is None
    assert "starved" not in texts(flagship.flagship(study, sweep)[0])


def test_the_regimes_are_those_of_the_catalogue() -> None:
    text = (ROOT / "scenarios" / "catalogue" / "regimes.yaml").read_text("utf-8")
    catalogue = yaml.safe_load(text)
    assert {regime.name for regime in REGIMES} == set(catalogue) - {"volunteer"}  # nobody measured
    for regime in REGIMES:
        known = catalogue[regime.name]
        assert regime.low <= float(known["losses_per_worker_hour"]) <= regime.high
        assert regime.in_bulk == known["in_bulk"]
        low, high = regime.independent
        assert (low, high) == (
            regime.low * (1 - regime.in_bulk),
            regime.high * (1 - regime.in_bulk),
        )


def test_curves_are_means_at_the_same_global_steps(full: Loaded) -> None:
    study, sweep = full
    column = seeds.columns_of(study, sweep)[1]
    frames = column.points["failure rate 40 %"]
    found = seeds.mean_curve(frames, "end_s", "gap")
    gaps = np.array([frame["gap"] for frame in frames])
    assert found.mean == pytest.approx(gaps.mean(axis=0))
    assert found.half_width == pytest.approx(4.302652730 * gaps.std(axis=0, ddof=1) / 3**0.5)
    idle = next(p for p in sweep.points if p.arm == "idle" and 0.4 in p.parameters.values())
    assert sorted(gaps[:, -1]) == pytest.approx(sorted(idle.values().values()))
    cut = seeds.mean_curve([frames[0], frames[1].iloc[1:]], "global_steps", "gap")
    assert list(cut.x) == list(frames[0]["global_steps"])[1:]


# --- words ----------------------------------------------------------------------------------


def test_the_finding_of_the_pilot(full: Loaded, golden: Callable[[str, Any], None]) -> None:
    golden("study_words", words(*full))


def test_every_sentence_with_numbers_says_how_they_came_about(full: Loaded) -> None:
    found = study_words.finding(*full)
    assert all(sentence.kind in ("measured", "simulated", "assumed") for sentence in found)


def test_one_seed_is_no_evidence_and_has_no_interval(tmp_path: Path) -> None:
    told = words(*loaded(FakeStudy(seeds=(4,), global_steps=5), tmp_path))
    assert "5 % (" in told[0]
    assert "one seed)" in told[0]
    assert "±" not in "".join(told)
    assert any("One seed, not evidence" in text for text in told)
    assert not any("ended lower" in text or "ended above" in text for text in told)


def test_without_controls_it_says_what_is_unknown(tmp_path: Path) -> None:
    told = "".join(words(*loaded(FakeStudy(controls=(), rates=(0.05,), text={}), tmp_path)))
    assert "No repeat without failures has finished" in told
    assert "No model without inner stages has finished" in told
    assert "Counting alone" not in told


def test_arms_with_no_failure_runs_of_their_own_are_ranked_by_gaps(tmp_path: Path) -> None:
    made = FakeStudy(rates=(0.05, 0.4), offsets={"skip": 0.5}, global_steps=5)
    told = words(*loaded(made, tmp_path))
    (ranked,) = (text for text in told if "skip against idle" in text)
    assert "skip has the lower gap at 5 % and 40 %" in ranked
    assert "ended lower" not in "".join(told)


def test_seeds_that_were_added_are_told_with_what_that_does(tmp_path: Path) -> None:
    """Points have as many as they got; an interval that ended it was narrow in part by luck."""
    made = FakeStudy(rates=(0.05, 0.4), global_steps=5)
    study, sweep = loaded(made, tmp_path)
    kept = [cell for cell in sweep.cells if cell.seed < 2 or cell.parameters.get(RATE) == 0.4]
    points = tuple(replace(p, cells=tuple(c for c in p.cells if c in kept)) for p in sweep.points)
    grown = replace(sweep, cells=tuple(kept), points=points, until=0.01)
    told = words(study, grown)
    assert "over 2 to 3 seeds: " in told[0]
    assert study_report.labels(study, grown)[0] == "2 to 3 seeds"
    (added,) = (text for text in told if "Seeds were added" in text)
    assert "± 0.01 nats" in added
    assert "less often than 19 times in 20" in added
    assert not any("Seeds were added" in text for text in words(study, sweep))


def test_a_depth_value_that_is_not_known_is_no_measure(tmp_path: Path) -> None:
    """+0.01 ± 0.05: a gap is no part of it."""
    study, sweep = loaded(FakeStudy(rates=(0.05, 0.4), global_steps=5), tmp_path)
    assert "Gaps at 40 % in parts of it: skip" in "".join(words(study, sweep))
    with mock.patch.object(Family, "depth", return_value=Interval(0.01, 0.05, 3)):
        told = "".join(words(study, sweep))
    assert "+0.010 ± 0.050 nats" in told
    assert "in parts of it" not in told


def test_arms_that_cannot_be_told_apart_are_not_ranked(tmp_path: Path) -> None:
    arms = {"one": ("skip", SKIP), "two": ("skip", SKIP)}
    told = words(*loaded(FakeStudy(arms, rates=(0.05, 0.15), global_steps=5), tmp_path))
    assert "measured: one against two: no difference can be told at 5 % and 15 %." in told


def test_a_timing_study_says_nothing_of_the_loss(tmp_path: Path) -> None:
    made = FakeStudy(more={"trains": False}, controls=(), global_steps=5)
    told = words(*loaded(made, tmp_path))
    assert told[0].endswith("No model was trained, so nothing is said of the loss.")
    assert "nats" not in "".join(told)
