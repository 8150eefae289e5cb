"""Outages written down by hand, in seconds or in steps; a worker is named by its first slot."""

from __future__ import annotations

from collections.abc import Iterator

from sim.clock import later
from sim.config import Script, ScriptedOutage
from sim.places import Worker
from sim.records import Event
from sim.replicas import Replicas
from sim.roster import Roster


def named(outage: ScriptedOutage, roster: Roster) -> Worker:
    """The worker that starts in the slot; past the last replica the spares go on in line."""
    line = [*roster.placement.seats, *roster.placement.spares]
    return roster.workers[line[outage.replica * roster.stages + outage.stage]]


def told_in_seconds(script: Script, roster: Roster) -> list[Event]:
    """The outages that a script dates in seconds, in time order.

    A worker gets no notice while it is away.
    """
    events = []
    back_s: dict[int, float] = {}
    dated = [(o.gone_s, name, o) for name, o in script.script.items() if o.gone_s is not None]
    for gone_s, name, outage in sorted(dated, key=lambda each: each[0]):
        who = named(outage, roster)
        worker = who.number
        warned_s = max(gone_s - who.pool.notice_s, back_s.get(worker, 0.0))
        if warned_s < gone_s:
            events.append(Event(warned_s, worker, "notice", name, gone_s))
        events.append(Event(gone_s, worker, "gone", name))
        if outage.back_s is not None:
            events.append(Event(outage.back_s, worker, "back", name))
            back_s[worker] = outage.back_s
    return sorted(events, key=lambda event: (event.t_s, event.worker))


def told_in_steps(
    script: Script, index: int, now_s: float, roster: Roster, replicas: Replicas
) -> Iterator[Event]:
    """The outages that a script tells in steps of this round, dated by the plans at its opening.

    A worker that sits in no slot then is passed over.
    """
    for name, outage in script.script.items():
        if outage.at is None or outage.at.global_step != index:
            continue
        worker = named(outage, roster)
        if worker.place is None:
            continue
        gone_s = replicas[worker.place.slot[0]].planned_s(outage.at.inner_step)
        warned_s = max(gone_s - worker.pool.notice_s, now_s)
        if warned_s < gone_s:
            yield Event(warned_s, worker.number, "notice", name, gone_s)
        yield Event(gone_s, worker.number, "gone", name)
        if outage.outage_s is not None:
            yield Event(later(gone_s, outage.outage_s), worker.number, "back", name)
