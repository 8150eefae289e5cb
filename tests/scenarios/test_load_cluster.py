"""Keys of the cluster that are right alone and wrong together: told with their place."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.derive import no_failure
from scenarios.schema import Inconsistent, Scenario

POOLS = {"d": {"workers": 16}, "s": {"workers": 16}}


def problems(cluster: dict[str, Any], **blocks: Any) -> list[tuple[tuple[str | int, ...], str]]:
    try:
        Scenario.model_validate({"name": "a", "pools": POOLS, "cluster": cluster, **blocks})
    except ValueError as error:
        found = [each["ctx"]["error"] for each in error.errors()]  # type: ignore[attr-defined]
        assert isinstance(found[0], Inconsistent)
        return found[0].problems
    return []


@pytest.mark.parametrize(
    ("cluster", "blocks", "loc", "says"),
    [
        ({"place": {"ends": "x"}}, {}, ("cluster", "place"), "no such pool (got x"),
        (
            {"place": {"ends": "d"}},
            {"pools": {"d": {"workers": 12}, "s": {"workers": 20}}},
            ("cluster", "place"),
            "16 ends need at least 16 workers of d (got 12)",
        ),
        (
            {"quorum": {"replicas": 9}},
            {},
            ("cluster", "quorum", "replicas"),
            "must be at most 8, the number of replicas (got 9)",
        ),
        (
            {"quorum": {"replicas": 5}},
            {"recovery": {"policy": ["skip", "wait"]}},
            ("cluster", "quorum"),
            "needs a policy that leaves others out (got wait)",
        ),
        (
            {},
            {"recovery": {"hand_over": True}},
            ("recovery", "hand_over"),
            "needs notice_s in a pool",
        ),
        ({"replicas": 9}, {}, ("pools",), "36 slots (replicas x stages) need at least 36"),
        (
            {"move_to_ends": True},
            {"recovery": {"policy": ["wait"]}},
            ("cluster", "move_to_ends"),
            "needs skip in recovery.policy",
        ),
        (
            {"move_to_ends": True},
            {"outages": {"kind": "per_global_step", "probability": 0.1}},
            ("cluster", "move_to_ends"),
            "every worker returns to its own slot",
        ),
    ],
)
def test_what_does_not_fit_is_told(
    cluster: dict[str, Any], blocks: dict[str, Any], loc: tuple[str, ...], says: str
) -> None:
    found = problems(cluster, **blocks)
    assert [where for where, _ in found] == [loc]
    assert says in found[0][1]


def test_a_name_alone_is_a_list_of_one() -> None:
    assert problems({"place": {"ends": "d", "inner": ["s"]}, "fill": "ends_first"}) == []


def test_the_no_failure_run_sits_where_it_matters_only() -> None:
    """Without failures nobody takes or leaves a slot; a slow pool is slow where it sits."""
    cluster = {"place": {"ends": "d"}, "fill": "ends_first", "quorum": {"replicas": 5}}
    for speed, place in ((None, False), (0.5, True)):
        pools = {"d": {"workers": 16, "speed": speed}, "s": {"workers": 16}}
        scenario = Scenario.model_validate({"name": "a", "pools": pools, "cluster": cluster})
        healthy = no_failure(scenario)
        assert healthy.pools["d"].speed == speed
        assert (healthy.cluster.place is not None) == place
        assert (healthy.cluster.fill, healthy.cluster.quorum) == ("in_order", None)
