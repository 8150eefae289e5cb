"""Every figure in every situation: drawn, labelled, and the same bytes each time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from analysis import curves, money, style, timeline
from analysis.load import Study, load
from analysis.style import Drawn

Make = Callable[..., Path]
Quick = tuple[Study, dict[str, Drawn]]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "PNG_DPI", 30)
        yield


@pytest.fixture(scope="module")
def quick(quickstart_folder: Path) -> Quick:
    """The quickstart and all its figures, drawn once."""
    loaded = load(quickstart_folder)
    return loaded, {figure.stem: figure for figure in draw(loaded)}


def draw(study: Study) -> list[Drawn]:
    return [
        *curves.loss_figures(study),
        *curves.gap_figure(study),
        *curves.progress_figures(study),
        *timeline.timeline_figures(study),
        *money.money_figures(study),
    ]


LOSSES = ["loss_vs_tokens", "loss_vs_hours", "loss_vs_dollars", "loss", "gap"]
PROGRESS = ["progress_tokens", "progress_dollars"]
BARS = ["slot_hours", "bill"]


def texts(figure: Drawn) -> str:
    """What a figure says: matplotlib leaves each text as a comment beside its outlines."""
    return " ".join(re.findall(r"<!-- (.*?) -->", figure.svg.decode(), re.DOTALL))


@pytest.mark.parametrize(
    ("situation", "stems"),
    [
        ("single run", [*LOSSES[:4], *PROGRESS, "timeline-run", *BARS]),
        ("timing only", [*PROGRESS, "timeline-skip", "timeline-idle", *BARS]),
        ("no outages at all", [*LOSSES, *PROGRESS, "timeline-no_failure", *BARS]),
        ("one global step", [*LOSSES, *PROGRESS, "timeline-skip", "timeline-idle", *BARS]),
        ("never evaluated", [*PROGRESS, "timeline-skip", "timeline-idle", *BARS]),
        ("no prices", ["loss_vs_tokens", "loss_vs_hours", "loss", "gap", "progress_tokens",
                       "timeline-skip", "timeline-idle", "slot_hours"]),
    ],
)  # fmt: skip
def test_every_figure_in_every_situation(
    situation: str,
    stems: list[str],
    study: Make,
    three: Any,
    fake: Any,
    request: pytest.FixtureRequest,
) -> None:
    if situation != "one global step":
        request.getfixturevalue("light_figures")
    arms = {
        "single run": lambda: [fake("run")],
        "timing only": lambda: three(trains=False),
        "no outages at all": lambda: [fake("no_failure", "none"), fake("skip", breaks=False)],
        "one global step": lambda: three(global_steps=1),
        "never evaluated": lambda: three(eval_every=None),
        "no prices": lambda: three(price=0.0),
    }[situation]()
    found = draw(load(study(arms, baseline=None if situation == "single run" else "no_failure")))
    assert [figure.stem for figure in found] == stems
    check(found)
    if situation == "one global step":
        assert "simulated seconds" in texts(found[1])


def test_every_figure_of_the_quickstart(quick: Quick) -> None:
    stems = [*LOSSES, *PROGRESS, "timeline-skip", "timeline-idle", *BARS]
    assert list(quick[1]) == stems
    check(list(quick[1].values()))


def check(found: list[Drawn]) -> None:
    for figure in found:
        assert figure.png.startswith(PNG)
        ElementTree.fromstring(figure.svg)
        assert "one seed, not evidence" in texts(figure)
        assert figure.caption
        assert figure.alt


def test_axes_say_their_units_and_that_they_are_simulated(quick: Quick) -> None:
    found = {stem: texts(figure) for stem, figure in quick[1].items()}
    assert "validation loss, nats per token" in found["loss_vs_tokens"]
    assert "tokens trained on, all replicas" in found["loss_vs_tokens"]
    assert "simulated hours" in found["loss_vs_hours"]
    assert "simulated dollars" in found["loss_vs_dollars"]
    assert "loss minus no failure's, nats" in found["gap"]
    assert "simulated tokens of the timed job" in found["progress_tokens"]
    assert "simulated slot-hours" in found["slot_hours"]
    assert "simulated hours" in found["timeline-idle"]
    assert all("proxy" in text for text in found.values())


def test_titles_say_the_finding(quick: Quick) -> None:
    loaded, figures = quick
    plain = {stem: texts(f).replace("\N{NO-BREAK SPACE}", " ") for stem, f in figures.items()}
    assert "Final gap: skip +0.012, idle +0.083 nats" in plain["gap"]
    told = loaded.runs[2].summary["slot_s"]
    total = sum(told.values())
    steps = sum(told[key] for key in ("compute", "boundary", "bubble")) / total
    assert f"idle: {100 * steps:.0f} % of slot time in steps" in plain["timeline-idle"]
    assert f"{100 * told['wait'] / total:.0f} % waiting or lost" in plain["timeline-idle"]


def test_many_arms_stay_readable(study: Make, fake: Any) -> None:
    arms = [fake(f"arm_{k}", penalty=0.01 * k, global_steps=10) for k in range(9)]
    found = load(study([fake("no_failure", "none", global_steps=10), *arms]))
    gap = curves.gap_figure(found)[0]
    assert "3 more arms" in gap.caption
    assert all(f"arm_{k}" in texts(gap) for k in range(9))
    assert len({(line.colour, line.dashes) for line in style.lines(found.runs).values()}) == 10


def test_a_thousand_slots_become_a_picture(study: Make, fake: Any) -> None:
    big = fake("skip", replicas=125, stages=8, global_steps=40)
    found = load(study([big], baseline=None))
    figure = timeline.timeline_figure(found, found.runs[0], "timeline")
    assert "A pixel mixes" in figure.caption
    assert b"<image" in figure.svg
    assert len(figure.svg) < 600_000


def test_money_closes(quick: Quick) -> None:
    for run in quick[0].runs:
        parts = money.dollars(run)
        assert sum(parts.values()) == pytest.approx(run.summary["usd"]["total"])
        assert parts["vacant"] == 0
        slots = run.summary["replicas"] * run.summary["stages"]
        hours = money.slot_hours(run)
        assert sum(hours.values()) == pytest.approx(slots * run.wall_s / 3600)


def test_equal_runs_are_equal_bytes_and_no_setting_leaks(quick: Quick) -> None:
    loaded, figures = quick
    before = dict(mpl.rcParams)
    again = [*curves.gap_figure(loaded), *timeline.timeline_figures(loaded)]
    again += money.money_figures(loaded)
    assert again == [figures[figure.stem] for figure in again]
    assert dict(mpl.rcParams) == before
    for figure in again:
        assert not re.search(rb"20\d\d-\d\d|matplotlib\.org|Matplotlib v", figure.svg)


def test_a_cell_s_name_becomes_a_harmless_file_name(study: Make, fake: Any) -> None:
    names = ["../../x", "..__..__x", "a/b\\c", "<b>", "é", "." * 99]
    arms = [fake(name, global_steps=2) for name in names]
    used: set[str] = set()
    stems = [timeline.stem_of(run, used) for run in load(study(arms, baseline=None)).runs]
    assert len(set(stems)) == len(names)
    assert all(re.fullmatch(r"timeline-[A-Za-z0-9_-]+", stem) for stem in stems)


def test_names_are_drawn_as_they_are(study: Make, fake: Any) -> None:
    """No mathematics, no markup, no line breaks out of a name."""
    found = load(study([fake("$x_1$ <b>&\n", global_steps=10)], baseline=None))
    drawn = timeline.timeline_figures(found)[0]
    ElementTree.fromstring(drawn.svg)
    assert "$x_1$ &lt;b&gt;&amp;?" in texts(drawn)
