"""Whatever a scenario does about outages, they are the same to the bit; each pool has its own."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.derive import job_config
from scenarios.schema import Scenario
from sim.records import Spell
from sim.watched import WatchedJob

EXPONENTIAL = {"law": "exponential", "mean": 0.5}
WEIBULL = {"law": "weibull", "mean": 0.2, "shape": 0.6}
POOL = {"workers": 9, "up_h": EXPONENTIAL, "outage_h": 0.05, "notice_s": 30}
POOLS = {"a": POOL, "b": {**POOL, "shocks": {"every_h": 0.5, "share": 0.5}}}
PLAIN: dict[str, Any] = {
    "name": "same",
    "train": None,
    "global_steps": 25,
    "cluster": {"replicas": 4, "stages": 4},
    "outages": {"kind": "pools"},
    "method": {"inner_steps": 20},
    "work": {"stage_seconds": {"forward_s": 1, "backward_s": 2}},
    "pools": POOLS,
}


def spells(**blocks: Any) -> tuple[list[Spell], float]:
    """Those that ended in the run, by start, and how long the run was."""
    job = WatchedJob(job_config(Scenario.model_validate({**PLAIN, **blocks})))
    wall_s = [step.end_s for step in job.global_steps()][-1]
    return [spell for spell in job.spells() if spell.back_s < wall_s], wall_s


def pools(**changes: dict[str, Any]) -> dict[str, Any]:
    """Both pools, with keys of one or the other changed."""
    return {"pools": {name: {**pool, **changes.get(name, {})} for name, pool in POOLS.items()}}


@pytest.mark.parametrize(
    "blocks",
    [
        {"recovery": {"policy": ["idle"]}},
        {"recovery": {"policy": ["skip", "wait"], "hand_over": True}},
        pools(a={"usd_per_h": 9.5}, b={"usd_per_h": 0.2}),
        {"method": {"inner_steps": 20, "boundary": {"codec": "shared", "ratio": 0.125}}},
        {"cluster": {"replicas": 4, "stages": 4, "place": {"zones": "spread"}}},
        {
            "cluster": {
                "replicas": 4,
                "stages": 4,
                "fill": "ends_first",
                "move_to_ends": True,
                "quorum": {"replicas": 2, "grace_s": 10},
            }
        },
        pools(a={"speed": WEIBULL, "jitter": {"factor": WEIBULL}}),
    ],
    ids=["policy", "hand-over", "prices", "codec", "placement", "fill and quorum", "stragglers"],
)
def test_what_is_done_about_outages_changes_none(blocks: dict[str, Any]) -> None:
    plain, plain_s = spells()
    other, other_s = spells(**blocks)
    until_s = min(plain_s, other_s)
    assert len(plain) > 10
    assert [s for s in plain if s.back_s < until_s] == [s for s in other if s.back_s < until_s]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("policy", [["skip", "idle"], ["idle"], ["wait"], ["restart"]])
def test_a_pool_to_fall_back_on_changes_no_other(policy: list[str], is_first: bool) -> None:
    """Wherever it stands in the file, its workers are those that come last."""
    keys = {"fallback": {"pool": "c", "after_wait_s": 20.0, "after_losses": 3}}
    falling: dict[str, Any] = {name: {**pool, **keys} for name, pool in POOLS.items()}
    last = {"c": {"workers": 12, "up_h": EXPONENTIAL, "outage_h": WEIBULL, "speed": WEIBULL}}
    blocks: dict[str, Any] = {"recovery": {"policy": policy}}
    if policy == ["restart"]:
        blocks["method"] = {"inner_steps": 2}
    plain, plain_s = spells(**blocks)
    other, other_s = spells(**blocks, pools=last | falling if is_first else falling | last)
    until_s = min(plain_s, other_s)
    found = [[s for s in each if s.back_s < until_s] for each in (plain, other)]
    assert found[0] == found[1] != []


def test_a_law_of_one_pool_changes_no_other() -> None:
    plain, plain_s = spells()
    other, other_s = spells(**pools(b={"up_h": WEIBULL, "shocks": {"every_h": 2, "share": 1}}))
    until_s = min(plain_s, other_s)
    found = [[s for s in each if s.back_s < until_s] for each in (plain, other)]
    of_a, of_b = ([[s for s in each if s.zone == zone] for each in found] for zone in "ab")
    assert of_a[0] == of_a[1] != []
    assert of_b[0] != of_b[1]
