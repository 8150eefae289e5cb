"""A second pipeline, to compare the recursion with: stages, links and NICs as SimPy processes.

Nothing is computed ahead: a stage looks at what it holds and does the next thing, a link carries
what is in its queue.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from sim.pipeline import Way

Process = Generator[simpy.Event, Any, None]


def played_s(
    forward_s: Sequence[float],
    backward_s: Sequence[float],
    micro_batches: int,
    most: Sequence[int],
    recompute_s: Sequence[float],
    there: Sequence[Way],
    back: Sequence[Way],
) -> float:
    """Seconds of a step, event by event."""
    env, stages = simpy.Environment(), len(forward_s)
    activations = [simpy.Store(env) for _ in range(stages)]
    gradients = [simpy.Store(env) for _ in range(stages)]
    nics = [simpy.Store(env) for _ in range(stages)]

    def stage(s: int) -> Process:
        begun = ended = 0
        while ended < micro_batches:
            if begun - ended < most[s] and begun < micro_batches:
                if s:
                    yield activations[s].get()
                yield env.timeout(forward_s[s])
                begun += 1
                if s < stages - 1:
                    nics[s].put((there[s], queues["there", s]))
            else:
                yield env.timeout(recompute_s[s])
                if s < stages - 1:
                    yield gradients[s].get()
                yield env.timeout(backward_s[s])
                ended += 1
                if s:
                    nics[s].put((back[s - 1], queues["back", s]))

    def nic(s: int) -> Process:
        while True:
            way, queue = yield nics[s].get()
            queue.put(way)
            yield env.timeout(way.port_s)

    def link(queue: simpy.Store, to: simpy.Store) -> Process:
        while True:
            way = yield queue.get()
            yield env.timeout(way.busy_s)
            env.process(later(way.latency_s, to))

    def later(latency_s: float, to: simpy.Store) -> Process:
        yield env.timeout(latency_s)
        to.put(None)

    queues = {}
    for s in range(stages):
        if s < stages - 1:
            queues["there", s] = simpy.Store(env)
            env.process(link(queues["there", s], activations[s + 1]))
        if s:
            queues["back", s] = simpy.Store(env)
            env.process(link(queues["back", s], gradients[s - 1]))
        env.process(nic(s))
    done = [env.process(stage(s)) for s in range(stages)]
    env.run(simpy.AllOf(env, done))
    return float(env.now)
