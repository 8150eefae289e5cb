"""A deadline, a budget and a target loss: counted over seeds, interpolated, never extrapolated."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.crossing import first_at
from scenarios.cli import app
from scenarios.load import Loaded, ScenarioError, load
from scenarios.odds import Odds, Outcome, in_words, interval, odds, quantile, simulated
from scenarios.plan import plan
from scenarios.run import execute
from scenarios.schema import Scenario

POOL = {
    "up_h": {"law": "exponential", "mean": 0.05},
    "outage_h": {"law": "exponential", "mean": 0.01},
    "usd_per_h": 1.0,
}


def scenario(**changes: object) -> Scenario:
    told = {
        "name": "a",
        "train": None,
        "global_steps": 10,
        "cluster": {"replicas": 2, "stages": 4},
        "outages": {"kind": "pools"},
        "recovery": {"policy": ["wait"]},
        "work": {"model": "178m", "sequences": 8},
        "pools": {"p": POOL},
    }
    return Scenario.model_validate({**told, **changes})


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.1, 1), (0.11, 2), (0.5, 5), (0.9, 9), (0.99, 10), (1, 10)]
)
def test_a_quantile_is_a_value_that_was_seen(share: float, value: float) -> None:
    assert quantile([float(n) for n in (3, 1, 2, 10, 9, 8, 7, 6, 5, 4)], share) == value


def test_the_interval_of_a_probability_is_wilsons() -> None:
    """The examples of Newcombe 1998: 81 of 263, 15 of 148, 0 of 20."""
    for count, of, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
    ]:
        assert interval(count, of) == pytest.approx((low, high), abs=1e-4)


def test_every_seed_is_a_run_of_its_own_and_a_deadline_changes_none() -> None:
    found = odds(scenario(), 6)
    assert len({one.hours for one in found.outcomes}) == 6
    assert found.outcomes[2] == simulated(scenario(seed=2))
    hours = sorted(one.hours for one in found.outcomes)
    asked = odds(scenario(target={"deadline_h": hours[3], "usd": 1e9}), 6)
    assert [one.hours for one in asked.outcomes] == [one.hours for one in found.outcomes]
    assert (found.late(), asked.late(), asked.over()) == (0, 2, 0)


def test_a_budget_buys_the_rounds_that_it_pays() -> None:
    whole = simulated(scenario(outages={"kind": "none"}, pools={"p": {"usd_per_h": 1.0}}))
    for share, rounds in ((1.0 + 1e-9, 10), (0.55, 5), (0.05, 0)):
        calm = {"outages": {"kind": "none"}, "pools": {"p": {"usd_per_h": 1.0}}}
        one = simulated(scenario(target={"usd": whole.usd * share}, **calm))
        assert one.tokens_for_usd == whole.tokens_for_usd * rounds // 10
        assert one.tokens_in_time == whole.tokens_in_time


def test_a_job_that_stop_ends_is_not_done_in_time_without_a_word() -> None:
    hours = simulated(scenario()).hours
    cut = odds(scenario(stop={"hours": hours / 2}, target={"deadline_h": hours}), 3)
    assert [one.is_cut for one in cut.outcomes] == [True] * 3
    assert "ends 3 of 3 before their last global step" in "\n".join(in_words(cut))
    assert not any("ends" in line for line in in_words(odds(scenario(), 3)))


def test_a_job_that_never_ends_is_late_and_says_never() -> None:
    outages = {"kind": "script", "script": {"end": {"replica": 0, "stage": 0, "gone_s": 1}}}
    stuck = scenario(outages=outages, pools={"p": {}}, target={"deadline_h": 1e6})
    found = odds(stuck, 2)
    assert [one.hours for one in found.outcomes] == [math.inf] * 2
    assert found.late() == 2
    assert "P50 never, P90 never, P99 never" in "\n".join(in_words(found))


def test_the_words() -> None:
    outcomes = tuple(Outcome(h, 10 * h, 1000 * h, 500) for h in range(1, 101))
    assert in_words(Odds(outcomes, 90.0, 2000.0))[1:] == [
        "  hours              P50 50, P90 90, P99 99",
        "  dollars            P50 $500, P90 $900, P99 $990",
        "  deadline           90 h missed with probability 10% (5.5% to 17.4%); by then 5e+04 "
        "(nine in ten at least 1e+04) tokens",
        "  budget             $2,000 exceeded with probability 0% (0.0% to 3.7%); it buys 500 "
        "(nine in ten at least 500) tokens",
    ]


def test_cents_are_kept_where_they_matter() -> None:
    told = "\n".join(in_words(Odds((Outcome(1, 0.00421, 0, 0),), None, 0.0042)))
    assert "P50 $0.00421" in told
    assert "$0.00420 exceeded with probability 100%" in told


def test_check_tells_the_odds_of_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["check", "timing_only", "global_steps=5", "target.deadline_h=1", "--odds", "3"]
    app(asked, standalone_mode=False)
    missed = capsys.readouterr().err.count("1 h missed with probability 0%")
    assert missed == len(load("timing_only", []).cells)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("{deadline_h: -3}", "s.yaml:3:22: target.deadline_h: must be above 0 (got -3)"),
        ("{usd: 0}", "target.usd: must be above 0 (got 0)"),
        ("{val_loss: 3}", "target.val_loss: needs a model that is trained: train is null"),
    ],
)
def test_what_cannot_be_asked(target: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: a\ntrain: null\ntarget: {target}\n")
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "s.yaml")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("target", "found"),
    [(3.5, (1, 0.5)), (3.0, (1, 1.0)), (4.0, (0, 1.0)), (9.0, (0, 1.0)), (1.9, None)],
)
def test_a_curve_is_crossed_between_two_points_and_never_beyond(
    target: float, found: tuple[int, float] | None
) -> None:
    assert first_at([4.0, 3.0, 3.2, 2.0], target) == found


def test_a_summary_tells_what_the_target_took(small: Callable[..., Loaded], tmp_path: Path) -> None:
    def summary(target: float) -> dict[str, object]:
        planned = plan(small("none", f"target.val_loss={target}"), tmp_path / "runs")
        return execute(planned.runs[planned.cells["run"]], lambda text: None)

    first = summary(0.01)
    assert first["to_target"] == "not reached"
    at_once = summary(99)["to_target"]
    assert isinstance(at_once, dict)
    assert (at_once["global_steps"], at_once["or_sooner"]) == (2, True)
    last = first["val_loss"]
    assert isinstance(last, float)
    at_end = summary(last)["to_target"]
    assert isinstance(at_end, dict)
    assert isinstance(first["wall_s"], float)
    assert isinstance(first["usd"], dict)
    assert at_end["hours"] == pytest.approx(first["wall_s"] / 3600)
    assert at_end["usd"] == pytest.approx(first["usd"]["total"])
    assert at_end["train_tokens"] == first["train_tokens"]
