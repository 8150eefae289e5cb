"""The learning penalty of what was not trained: fitted, bounded, or unknown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.penalty import Trained, fit, penalty, responses
from tests.analysis.fake_study import SKIP, FakeStudy

POINTS = [
    Trained(share, rounds, share * (0.2 + 0.1 * math.log(rounds)))
    for share in (0.05, 0.1, 0.3)
    for rounds in (2.0, 8.0)
]


def test_a_response_of_that_form_is_found_without_error() -> None:
    found = fit("skip idle", "none", POINTS)
    assert (found.per_share, found.per_log_round) == pytest.approx((0.2, 0.1))
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.gap(0.2, 4.0) == pytest.approx(0.2 * (0.2 + 0.1 * math.log(4)))
    assert found.gap(0.0, 100.0) == 0.0, "nothing degraded costs nothing"


@pytest.mark.parametrize(("share", "rounds"), [(0.31, 4), (0.1, 1.9), (0.1, 8.1)])
def test_nothing_is_told_outside_what_was_trained(share: float, rounds: float) -> None:
    told = penalty("skip idle", "none", [fit("skip idle", "none", POINTS)], share, rounds)
    assert (told.kind, told.gap) == ("unknown", None)


def test_one_length_of_outages_tells_nothing_of_lengths() -> None:
    found = fit("idle", "none", [Trained(x, 6.0, 0.5 * x) for x in (0.1, 0.2, 0.4)])
    assert (found.per_share, found.per_log_round) == (pytest.approx(0.5), 0.0)


def test_the_error_is_what_points_are_missed_by_when_left_out() -> None:
    points = [Trained(0.1, 6.0, 0.1), Trained(0.2, 6.0, 0.2), Trained(0.2, 6.0, 0.26)]
    missed = []
    for i, point in enumerate(points):
        kept = [p for j, p in enumerate(points) if j != i]
        slope = sum(p.degraded_share * p.gap for p in kept) / sum(p.degraded_share**2 for p in kept)
        missed.append(slope * point.degraded_share - point.gap)
    assert fit("idle", "none", points).error == pytest.approx(
        math.sqrt(sum(value**2 for value in missed) / 3)
    )


@pytest.mark.parametrize(
    ("policy", "measured", "kind", "gap"),
    [
        ("wait", None, "exact", 0.0),
        ("restart", None, "exact", 0.0),
        ("wait idle", None, "unknown", None),
        ("skip wait", None, "unknown", None),
        ("skip wait", 0.03, "measured", 0.03),
        ("skip idle", None, "interpolated", pytest.approx(0.02 + 0.01 * math.log(4))),
    ],
)
def test_how_a_penalty_is_known(
    policy: str, measured: float | None, kind: str, gap: float | None
) -> None:
    told = penalty(policy, "none", [fit("skip idle", "none", POINTS)], 0.1, 4.0, measured)
    assert (told.kind, told.gap) == (kind, gap)
    other = penalty("skip idle", "shared", [fit("skip idle", "none", POINTS)], 0.1, 4.0)
    assert other.kind == "unknown", "another codec"


def test_a_trained_study_tells_its_policies_apart(tmp_path: Path) -> None:
    study = FakeStudy(noise=0.0, controls=()).write(tmp_path)
    found = {told.policy: told for told in responses(study)}
    assert found.keys() == {"skip idle", "idle"}
    assert found["skip idle"].points == 4, "without failures nothing is degraded"
    assert found["skip idle"].per_share < found["idle"].per_share
    told = penalty("skip idle", "none", list(found.values()), found["skip idle"].most_degraded, 6.0)
    assert told.gap is not None
    assert told.error is not None
    assert abs(told.gap - SKIP[0.4]) < 3 * told.error
