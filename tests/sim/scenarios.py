"""Random tiny jobs of every kind of outage and policy, for property tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from sim.config import Fallback, Network, Outages, Pool, PoolOutages
from sim.news import StalledError
from sim.records import GlobalStep
from sim.watched import WatchedJob
from tests.sim.worlds import IDLE, RESTART, SKIP, SKIP_WAIT, WAIT, job, network, sizes

LIMITED = [
    [{"skip": {"at_most": 1}}, "wait"],
    [{"skip": {"at_most": 1, "for_rounds": 2}}, {"wait": {"at_most_s": 20.0}}, "idle"],
    [{"skip": {"for_rounds": 1}}, "idle"],
    [{"wait": {"at_most_s": 7.0}}, "skip", "idle"],
    [{"wait": {"at_most_s": 7.0}}, "idle"],
]
POLICIES = [SKIP, IDLE, WAIT, SKIP_WAIT, RESTART, *LIMITED]
PER_STEP = {"kind": "per_global_step"}


@dataclass(frozen=True)
class Case:
    """Arguments of `worlds.job`."""

    replicas: int
    stages: int
    steps: int
    policy: list[Any]
    pools: dict[str, Pool]
    sizes: dict[str, Any]
    links: Network
    script: dict[str, Any] | None = None
    outages: Outages | dict[str, Any] | None = None
    seed: int = 0
    rounds: int = 8
    cluster: dict[str, Any] = field(default_factory=dict)
    hand_over: bool = False
    checkpoint: dict[str, Any] = field(default_factory=dict)
    """Read under `restart`."""

    def job(self) -> WatchedJob:
        return job(
            self.script,
            replicas=self.replicas,
            stages=self.stages,
            steps=self.steps,
            rounds=self.rounds,
            policy=self.policy,
            checkpoint=self.checkpoint if self.policy == RESTART else None,
            pools=self.pools,
            of=sizes(self.stages, **self.sizes),
            links=self.links,
            outages=self.outages,
            seed=self.seed,
            cluster=self.cluster,
            hand_over=self.hand_over and self.policy != RESTART,
        )

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)


def ran(a_job: WatchedJob) -> list[GlobalStep]:
    """Its rounds, up to a stall."""
    found = []
    try:
        for step in a_job.global_steps():
            found.append(step)
    except StalledError:
        pass
    return found


few_s = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0, 5.0]), st.floats(0.0, 20.0))


harsher = st.fixed_dictionaries(
    {},
    optional={
        "life_cap_h": st.sampled_from([0.01, 0.02]),
        "refill_at_once": st.integers(1, 3),
        "shocks": st.fixed_dictionaries(
            {"every_h": st.sampled_from([0.01, 0.05]), "share": st.sampled_from([0.3, 1.0])},
            optional={"block_refill_h": st.sampled_from([0.01, 0.02])},
        ),
    },
)


factors = st.one_of(
    st.sampled_from([0.5, 1.0, 2.0]),
    st.just({"law": "exponential", "mean": 1}),
    st.just({"law": "lognormal", "mean": 1, "sigma": 0.5}),
)
uneven = st.fixed_dictionaries(
    {},
    optional={
        "speed": factors,
        "jitter": st.fixed_dictionaries(
            {"factor": factors, "per": st.sampled_from(["round", "inner_step"])}
        ),
    },
)
"""Speeds and jitter; none as often as any."""


@st.composite
def pool(draw: Any, workers: int, lawful: bool) -> Pool:
    """A pool of workers that last minutes."""
    laws: dict[str, Any] = {}
    if lawful:
        kinds = st.one_of(
            st.floats(0.005, 0.2),
            st.sampled_from([0.01, 0.02, 0.05]),
            st.floats(0.005, 0.2).map(lambda mean: {"law": "exponential", "mean": mean}),
            st.floats(0.005, 0.2).map(lambda mean: {"law": "weibull", "mean": mean, "shape": 0.6}),
            st.floats(0.005, 0.2).map(lambda mean: {"law": "lognormal", "mean": mean, "sigma": 1}),
        )
        laws = {"up_h": draw(kinds), "outage_h": draw(kinds)} | draw(harsher)
    return Pool.model_validate(
        {
            "workers": workers,
            "usd_per_h": draw(st.floats(0.0, 10.0)),
            "provision_s": draw(few_s),
            "detect_s": draw(few_s),
            "notice_s": draw(few_s),
            **laws,
            **draw(uneven),
        }
    )


@st.composite
def pools(draw: Any, slots: int, kind: str) -> dict[str, Pool]:
    """One pool or two, with no, a few or many spares; now and then one to fall back on."""
    workers = slots + draw(st.sampled_from([0, 0, 1, 3]))
    first = draw(st.integers(0, workers))
    split = {"a": first, "b": workers - first} if draw(st.booleans()) else {"a": workers}
    found = {name: draw(pool(count, kind == "pools")) for name, count in split.items()}
    return found if kind == "per" or draw(st.booleans()) else draw(with_backup(found, slots, kind))


@st.composite
def with_backup(draw: Any, pools: dict[str, Pool], slots: int, kind: str) -> dict[str, Pool]:
    """Pools that fall back on another one, which may be too small and lose workers as well."""
    waits = {"after_wait_s": draw(few_s)}
    keys = draw(st.sampled_from([waits, {"after_losses": 2}, {**waits, "after_losses": 2}]))
    falls = {"fallback": Fallback(pool="backup", **keys)}
    found = {name: each.model_copy(update=falls) for name, each in pools.items()}
    workers, lawful = draw(st.integers(1, slots)), kind == "pools" and draw(st.booleans())
    return {**found, "backup": draw(pool(workers, lawful))}


@st.composite
def wired(draw: Any, pools: dict[str, Pool]) -> tuple[Network, dict[str, Pool]]:
    """Every way to exchange; links alike, through lines of their own, or between two regions."""
    prices = {"usd_per_gb": draw(st.floats(0.0, 1.0))}
    told = network(
        hop_mbps=draw(st.sampled_from([8.0, 64.0, 1000.0])),
        latency_ms=draw(st.sampled_from([0.0, 30.0])),
        **prices,
    ).model_dump()
    via = draw(st.sampled_from(["store", "store", "ring", "allgather"]))
    if via != "store":
        told["replicas"] = {"via": via, "bandwidth_mbps": 16.0, "latency_ms": 5.0, **prices}
    lines = st.sampled_from([{}, {}, {"up_mbps": 4.0}, {"up_mbps": 2.0, "down_mbps": 20.0}])
    changes: dict[str, dict[str, Any]] = {name: draw(lines) for name in pools}
    if draw(st.booleans()):
        told["regions"] = {
            "links": {"x": {"y": {"rtt_ms": 100.0}}, "y": {"x": {"mbps": 30.0, "usd_per_gb": 0.5}}},
            "usd_per_gb": {"same_zone": 0.0, "cross_region": 1.0},
        }
        told["store"]["region"] = draw(st.sampled_from([None, "x"]))
        for name in pools:
            changes[name] = {**changes[name], "region": "x" if name == "a" else "y"}
    placed = {name: pool.model_copy(update=changes[name]) for name, pool in pools.items()}
    return Network.model_validate(told), placed


@st.composite
def scripted(draw: Any, replicas: int, stages: int) -> dict[str, Any]:
    """Outages in seconds and in steps; overlapping ones too."""
    script: dict[str, Any] = {}
    for k in range(draw(st.integers(0, 6))):
        where = {
            "replica": draw(st.integers(0, replicas - 1)),
            "stage": draw(st.integers(0, stages - 1)),
        }
        out_s = draw(st.one_of(st.none(), st.sampled_from([1.0, 4.0, 30.0]), st.floats(0.1, 60.0)))
        if draw(st.booleans()):
            step = {
                "global_step": draw(st.integers(0, 5)),
                "inner_step": draw(st.integers(0, 4)),
            }
            script[f"at{k}"] = {**where, "at": step, "outage_s": out_s}
        else:
            gone_s = draw(st.one_of(st.integers(0, 60).map(float), st.floats(0.0, 60.0)))
            back_s = None if out_s is None else gone_s + out_s
            script[f"dated{k}"] = {**where, "gone_s": gone_s, "back_s": back_s}
    return script


@st.composite
def per_global_step(draw: Any, stages: int) -> dict[str, Any]:
    """The published regime."""
    return PER_STEP | {
        "probability": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        "duration_global_steps": draw(st.integers(1, 4)),
        "stages": draw(st.sampled_from(["ends", "all", *(["inner"] if stages > 2 else [])])),
        "start_step": draw(st.integers(0, 3)),
    }


@st.composite
def seating(
    draw: Any, names: list[str], kind: str, policy: list[str], replicas: int
) -> dict[str, Any]:
    """Keys of the cluster beyond its size, such that every pool that is hired may sit anywhere."""
    names = [name for name in names if name != "backup"]
    found: dict[str, Any] = {
        "fill": draw(st.sampled_from(["in_order", "ends_first", "fewest_missing_first"]))
    }
    if draw(st.booleans()):
        found["place"] = {
            "ends": draw(st.permutations(names)),
            "inner": draw(st.permutations(names)),
            "zones": draw(st.sampled_from(["packed", "spread"])),
        }
    policies = {entry if isinstance(entry, str) else next(iter(entry)) for entry in policy}
    if "skip" in policies and kind != "per":
        found["move_to_ends"] = draw(st.booleans())
    if not {"wait", "restart"} & policies and draw(st.booleans()):
        found["quorum"] = {"replicas": draw(st.integers(1, replicas)), "grace_s": draw(few_s)}
    return found


@st.composite
def cases(draw: Any, kinds: tuple[str, ...] = ("none", "per", "script", "pools")) -> Case:
    """A random job."""
    replicas, stages = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(kinds))
    seconds = st.lists(st.sampled_from([0.5, 0.25, 0.1]), min_size=stages, max_size=stages)
    nbytes = st.lists(st.integers(0, 3_000_000), min_size=stages, max_size=stages)
    m = draw(st.sampled_from([1, 1, 2, 4]))
    policy = draw(st.sampled_from(POLICIES))
    links, workers = draw(wired(draw(pools(replicas * stages, kind))))
    return Case(
        replicas=replicas,
        stages=stages,
        steps=draw(st.integers(1, 5)),
        policy=policy,
        pools=workers,
        cluster=draw(seating(list(workers), kind, policy, replicas)),
        hand_over=draw(st.booleans()),
        sizes={
            "forward_s": tuple(draw(seconds)),
            "backward_s": tuple(draw(seconds)),
            "micro_batches": m,
            "schedule": draw(st.sampled_from(["gpipe", "1f1b"])),
            "hop_bytes": draw(st.sampled_from([0, 100_000, 1_000_000])),
            "update_bytes": tuple(draw(nbytes)),
            "weights_bytes": tuple(draw(nbytes)),
            "state_bytes": tuple(draw(nbytes)),
        },
        links=links,
        script=draw(scripted(replicas, stages)) if kind == "script" else None,
        outages=PoolOutages(kind="pools")
        if kind == "pools"
        else draw(per_global_step(stages))
        if kind == "per"
        else None,
        seed=draw(st.integers(0, 2**32 - 1)),
        checkpoint={
            "every_global_steps": draw(st.sampled_from([1, 2, 3, "never", "daly"])),
            "cost_s": draw(st.sampled_from([None, 0.0, 3.0])),
        },
    )
