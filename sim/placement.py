"""Who sits where at the start, and which slots a pool's workers may take (rule 13). Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from sim.config import Cluster, Pool, on_call
from sim.policies import View


class Placement:
    """Slots by number, r x S + s; workers by number, pools in file order.

    Workers on call serve no slot: one is bought for a slot.

    Raises:
        ValueError: a pool is named that does not exist or is on call, a kind of slots has too few
            workers, or a pool would serve no slot.
    """

    def __init__(self, cluster: Cluster, pools: Mapping[str, Pool]) -> None:
        self._cluster, self._pools, self._on_call = cluster, pools, on_call(pools)
        view = View(cluster.stages)
        stages: dict[str, list[int]] = {"ends": [], "inner": []}
        for stage in range(cluster.stages):
            stages["ends" if view.is_end(stage) else "inner"].append(stage)
        self._names = [name for name in pools if name not in self._on_call]
        named = self._named()
        if named["ends"] == named["inner"]:
            self._kinds = [
                ("slots (replicas x stages)", list(range(cluster.stages)), named["ends"])
            ]
        else:
            self._kinds = [(kind, stages[kind], named[kind]) for kind in ("ends", "inner")]
        self._serves = {
            (pool, stage)
            for _, of_kind, names in self._kinds
            for pool in names
            for stage in of_kind
        }
        self._check()
        self.seats, self.spares = self._deal()
        """Workers by slot, all of them joined at t = 0; those without one."""

    def serves(self, pool: str, stage: int) -> bool:
        """Whether the workers of a pool may sit in a stage."""
        return (pool, stage) in self._serves

    def _named(self) -> dict[str, list[str]]:
        """Pools by kind of stage; one that is not told has those that the other does not name."""
        place, every = self._cluster.place, self._names
        told = {} if place is None else {"ends": place.ends, "inner": place.inner}
        lists = {
            kind: [names] if isinstance(names, str) else list(names)
            for kind, names in told.items()
            if names is not None
        }
        for kind, names in lists.items():
            for name in names:
                if name in self._on_call:
                    raise ValueError(f"{kind}: others fall back on {name}, so it has no slots")
                if name not in self._pools:
                    raise ValueError(f"{kind}: no such pool (got {name}; there are {every})")
        named = set().union(*lists.values())
        others = [name for name in every if name not in named] or every
        return {kind: lists.get(kind, others) for kind in ("ends", "inner")}

    def _check(self) -> None:
        replicas = self._cluster.replicas
        for kind, stages, names in self._kinds:
            need, have = replicas * len(stages), sum(self._pools[n].workers or 0 for n in names)
            if have < need:
                of = f" of {', '.join(names)}" if self._cluster.place else ""
                raise ValueError(f"{need} {kind} need at least {need} workers{of} (got {have})")
        for name in self._names:
            if not any(pool == name for pool, _ in self._serves):
                raise ValueError(f"the workers of {name} would serve no slot: name it, or drop it")

    def _deal(self) -> tuple[list[int], list[int]]:
        free: dict[str, deque[int]] = {}
        first = 0
        for name, pool in self._pools.items():
            free[name] = deque(range(first, first + (pool.workers or 0)))
            first += pool.workers or 0
        zones = "in_order" if self._cluster.place is None else self._cluster.place.zones
        seats = [-1] * (self._cluster.replicas * self._cluster.stages)
        for r in range(self._cluster.replicas):
            for kind, stages, names in self._kinds:
                whole = [name for name in names if len(free[name]) >= len(stages)]
                for stage in stages:
                    turn = names
                    if zones == "packed" and whole:
                        turn = whole[:1]
                    elif zones == "spread":
                        turn = _from(names, r + stage)
                    ready = [name for name in turn if free[name]]
                    if not ready:
                        raise ValueError(
                            f"{kind}: the ends take too many of {', '.join(names)}; "
                            "give more workers, or the ends a pool of their own"
                        )
                    seats[r * self._cluster.stages + stage] = free[ready[0]].popleft()
        return seats, [number for name in self._names for number in free[name]]


def _from(names: Sequence[str], k: int) -> list[str]:
    """The names in a ring, from the k-th on."""
    k %= len(names)
    return [*names[k:], *names[:k]]
