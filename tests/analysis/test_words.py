"""The finding in words: its numbers are those of summary.json, and it claims no more."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis import numbers, words
from analysis.load import Study, load

Make = Callable[..., Path]


def text(study: Study) -> str:
    return "\n".join(sentence.text for sentence in words.finding(study))


def test_the_numbers_of_the_finding_are_the_summaries(study: Make, three: Any) -> None:
    found = load(study(three()))
    first, bill, outages, target = words.finding(found)
    healthy, skip, idle = (run.summary for run in found.runs)
    assert first.text == (
        "With a 5 % chance per replica and global step of losing one inner stage for 6 global "
        f"steps, skip ended {skip['val_loss_gap']:.3f} nats above its own no-failure run "
        f"({skip['val_loss']:.3f} against {healthy['val_loss']:.3f}) and idle "
        f"{idle['val_loss_gap']:.3f} nats above ({idle['val_loss']:.3f} against "
        f"{healthy['val_loss']:.3f}), after the same 45 global steps."
    )
    assert first.kind == "measured"
    parts = [f"{s['wall_s'] / 3600:.2f} hours and ${s['usd']['total']:.2f}"
             for s in (healthy, skip, idle)]  # fmt: skip
    assert bill.text == (
        f"No failure took {parts[0]}, skip {parts[1]} and idle {parts[2]} "
        "at the prices assumed below."
    )
    assert bill.kind == outages.kind == target.kind == "simulated"
    assert outages.text.startswith(f"{skip['outages']} losses of a slot (")
    assert f"left {100 * skip['degraded_share']:.0f} % of the replica-rounds" in outages.text
    assert "the law gives 24 % in the long run" in outages.text
    for told in (skip, idle):
        share = f"({100 * told['full_depth_token_share']:.0f} % at full depth)"
        assert share in outages.text
    assert target.text.startswith(f"To come to a loss of {idle['val_loss']:.3f}, the highest")


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (0.0123, "0.012 nats above its own"),
        (-0.0439, "0.044 nats below its own"),
        (0.0, "exactly level with its own"),
        (0.00002, "2.0e-05 nats above its own"),
    ],
)
def test_a_gap_in_words(study: Make, fake: Any, gap: float, expected: str) -> None:
    found = load(study([fake("no_failure", "none"), fake("arm", summary={"val_loss_gap": gap})]))
    assert f"arm ended {expected} no-failure run" in text(found)
    below = "does not say that outages help" in str(words.caution(found))
    assert below == (gap < 0)


def test_what_the_label_says_is_said_in_words(study: Make, three: Any) -> None:
    told = [sentence.text for sentence in words.caution(load(study(three(global_steps=2))))]
    assert told[0].startswith("One seed, not evidence")
    assert told[1].startswith("Proxy: ")
    assert "178m" in told[1]


def test_no_proxy_is_not_called_one(study: Make, three: Any) -> None:
    assert "Proxy" not in str(words.caution(load(study(three(global_steps=2, proxy=False)))))


def test_a_timing_study_says_nothing_of_the_loss(study: Make, three: Any) -> None:
    found = load(study(three(global_steps=9, trains=False)))
    told = text(found)
    assert "No model was trained, so nothing is said of the loss." in told
    assert "nats" not in told
    rate = numbers.significant(found.runs[0].summary["tokens_per_s"])
    assert f"no failure made {rate} tokens a second" in told


def test_never_evaluated(study: Make, three: Any) -> None:
    assert "The model was never evaluated" in text(load(study(three(eval_every=None))))


def test_without_prices_no_dollars_are_told(study: Make, three: Any) -> None:
    told = text(load(study(three(price=0.0))))
    assert "no prices were given" in told
    assert "$" not in told


def test_without_outages_none_are_told(study: Make, fake: Any) -> None:
    arms = [fake("no_failure", "none"), fake("skip", breaks=False)]
    assert "No slot was lost in any run." in text(load(study(arms)))


def test_a_run_whose_no_failure_run_is_missing_has_no_gap(study: Make, fake: Any) -> None:
    told = text(load(study([fake("run")], baseline=None)))
    assert re.search(r"the run ended at a loss of 3\.\d{3}; the no-failure run has not fin", told)


def test_of_many_arms_the_extremes_are_told(study: Make, fake: Any) -> None:
    arms = [fake(f"arm{k}", penalty=0.01 * k, global_steps=3) for k in range(1, 9)]
    told = text(load(study([fake("no_failure", "none", global_steps=3), *arms])))
    assert "of 8 arms the closest and the furthest: arm1 ended 0.010" in told
    assert "arm8 0.080 nats above" in told
    assert "arm4" not in told


def test_arms_under_different_outages_are_not_told_as_one(study: Make, fake: Any) -> None:
    arms = [fake("no_failure", "none"), fake("skip"), fake("other", "none", penalty=0.1)]
    assert text(load(study(arms))).startswith("Each arm under its own outages, ")


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ({"kind": "none"}, "no outages"),
        ({"kind": "pools"}, "outages by the laws of the pools"),
        ({"kind": "script", "script": {"a": {}}}, "1 scripted outage"),
        ({"kind": "trace"}, "the outages of a trace"),
        ({"kind": "moon"}, "outages of kind moon"),
        (
            {"kind": "per_global_step", "probability": 0.001, "duration_global_steps": 1,
             "stages": [1, 2]},
            "a 0.1 % chance per replica and global step of losing one of the stages [1, 2] "
            "for 1 global step",
        ),
        ({"kind": "per_global_step", "probability": "x", "stages": None}, "a x chance per replica "
         "and global step of losing one of the stages null for null global steps"),
    ],
)  # fmt: skip
def test_a_law_in_words(law: dict[str, Any], expected: str) -> None:
    assert words.law_words(law) == expected


def test_the_expected_degraded_share() -> None:
    law = {"kind": "per_global_step", "probability": 0.01, "duration_global_steps": 6}
    assert words.expected_degraded(law) == pytest.approx(0.06 / 1.05)
    assert words.expected_degraded({"kind": "pools"}) is None


@pytest.mark.parametrize(
    ("show", "value", "expected"),
    [
        (numbers.percent, 0.0, "0 %"),
        (numbers.percent, 1.0, "100 %"),
        (numbers.percent, 0.0001, "<0.1 %"),
        (numbers.percent, 0.9999, ">99.9 %"),
        (numbers.percent, 0.0731, "7.3 %"),
        (numbers.percent, 0.993, "99.3 %"),
        (numbers.percent, 0.7, "70 %"),
        (numbers.percent, None, "-"),
        (numbers.usd, 0.0, "$0.00"),
        (numbers.usd, 0.00421, "$0.00421"),
        (numbers.usd, 57.209, "$57.21"),
        (numbers.usd, 7688.6, "$7,689"),
        (numbers.hours, 6975.0, "1.94"),
        (numbers.hours, 3.6, "0.00100"),
        (numbers.count, 921_600, "921,600"),
        (numbers.count, 7_372_800, "7.37M"),
        (numbers.count, 3.93e9, "3.93G"),
        (numbers.gap, 0, "0"),
        (numbers.gap, -0.0439, "-0.044"),
        (numbers.gap, 0.0123, "+0.012"),
        (numbers.significant, 659_707.3, "660,000"),
        (numbers.significant, 0.0, "0"),
        (numbers.plain, [1, None, True, 0.05], "[1, null, true, 0.05]"),
    ],
)
def test_numbers_as_people_read_them(show: Any, value: Any, expected: str) -> None:
    assert show(value) == expected
