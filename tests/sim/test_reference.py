"""The engine against the independent simulator of `reference`, on random scripts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.job import Job
from sim.networks import StageNetwork
from sim.news import StalledError
from sim.records import GlobalStep
from tests.sim.reference import Reference, Round, World
from tests.sim.worlds import IDLE, MB, SKIP, SKIP_WAIT, WAIT, gone, job, network, seconds, sizes

POLICIES = {
    (True, False): SKIP,
    (False, False): IDLE,
    (True, True): SKIP_WAIT,
    (False, True): WAIT,
}


@st.composite
def worlds(draw: Any) -> World:
    """Clusters of a few slots, whose workers leave and return a few times each."""
    replicas, stages = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    outages = []
    for r in range(replicas):
        for s in range(stages):
            t = 0
            for _ in range(draw(st.integers(0, 2))):
                gone_s = t + draw(st.integers(0, 60))
                back_s = draw(st.one_of(st.none(), st.integers(1, 40)))
                outages.append((r, s, gone_s, None if back_s is None else gone_s + back_s))
                if back_s is None:
                    break
                t = gone_s + back_s
    return World(
        replicas=replicas,
        stages=stages,
        inner_steps=draw(st.integers(1, 4)),
        rounds=4,
        skips=draw(st.booleans()),
        waits=draw(st.booleans()),
        stage_s=draw(st.integers(1, 3)),
        upload_s=draw(st.integers(1, 4)),
        download_s=draw(st.integers(1, 3)),
        detect_s=draw(st.integers(0, 6)),
        provision_s=draw(st.integers(0, 4)),
        restore_s=draw(st.integers(1, 5)),
        outages=outages,
    )


def engine(world: World) -> Job:
    """The same world for the engine: an update of 1 MB, whatever that takes each way."""
    s = world.stages
    script = {
        f"o{k}": gone(r, stage, float(gone_s), None if back_s is None else float(back_s))
        for k, (r, stage, gone_s, back_s) in enumerate(world.outages)
    }
    return job(
        script,
        replicas=world.replicas,
        stages=s,
        steps=world.inner_steps,
        rounds=world.rounds,
        policy=POLICIES[world.skips, world.waits],
        of=sizes(
            s,
            forward_s=(world.stage_s / 2,) * s,
            backward_s=(world.stage_s / 2,) * s,
            update_bytes=(12 * MB,) * s,
            weights_bytes=(12 * MB * world.restore_s // world.download_s,) * s,
            state_bytes=(12 * MB * world.restore_s // world.download_s,) * s,
        ),
        links=network(up_mbps=96.0 / world.upload_s, down_mbps=96.0 / world.download_s).model_copy(
            update={"stages": StageNetwork(latency_ms=0.0)}
        ),
        detect_s=float(world.detect_s),
        provision_s=float(world.provision_s),
    )


def as_round(step: GlobalStep) -> Round:
    classes = seconds(step)
    classes["steps"] = sum(classes.pop(name, 0.0) for name in ("compute", "bubble", "boundary"))
    return Round(
        step.start_s,
        step.end_s,
        step.steps.tolist(),
        step.sends.tolist(),
        step.joins.tolist(),
        {name: value for name, value in classes.items() if value},
    )


@settings(deadline=None, max_examples=150, derandomize=True)
@given(worlds())
def test_engine_and_reference_agree(world: World) -> None:
    try:
        expected = Reference(world).run()
    except RuntimeError:
        with pytest.raises(StalledError):
            list(engine(world).global_steps())
        return
    assert [as_round(step) for step in engine(world).global_steps()] == expected
