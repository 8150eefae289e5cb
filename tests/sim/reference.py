"""A second simulator of scripted outages, to compare the engine with.

It shares no code with `sim` and works unlike it: a replica is followed one inner step at a time
with the whole future known, and every second of every slot is then looked at by itself. Whole
seconds; every policy; no spares, no notice, no hop time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

NEVER = 10**9
EVERY = [True] * 9


@dataclass
class World:
    """Whole seconds; `outages` are (replica, stage, gone_s, back_s), back_s None for never."""

    replicas: int
    stages: int
    inner_steps: int
    rounds: int
    skips: bool
    waits: bool
    stage_s: int
    upload_s: int
    download_s: int
    detect_s: int
    provision_s: int
    restore_s: int
    outages: list[tuple[int, int, int, int | None]]


@dataclass
class Work:
    """What a replica did in an attempt."""

    release_s: int
    steps: list[int]
    sends: list[bool]
    did: list[tuple[int, int, str, list[bool]]] = field(default_factory=list)
    """(start_s, end_s, class, stages) in order."""
    stopped_by_s: int = -1
    """The loss that stopped it."""

    @property
    def finished(self) -> bool:
        return bool(self.steps)


@dataclass
class Round:
    """What is compared with a GlobalStep."""

    start_s: int
    end_s: int
    steps: list[list[int]]
    sends: list[list[bool]]
    joins: list[list[int]]
    seconds: Counter[str]


class Reference:
    """Runs a world. Raises RuntimeError if nobody will ever train again."""

    def __init__(self, world: World) -> None:
        self.w = world
        self.slots = [(r, s) for r in range(world.replicas) for s in range(world.stages)]
        self.gone = {slot: [] for slot in self.slots}
        for r, s, gone_s, back_s in sorted(world.outages, key=lambda o: o[2]):
            self.gone[r, s].append((gone_s, NEVER if back_s is None else back_s))
        self.joined_s = {slot: [0] for slot in self.slots}  # instants of joining

    def run(self) -> list[Round]:
        """The committed rounds."""
        found: list[Round] = []
        start_s = 0
        while len(found) < self.w.rounds:
            joins = self.join(start_s, self.slots) if found else set()
            attempts = [self.attempt(start_s)]
            while not any(work.finished for work in attempts[-1]):
                now: float = max(work.release_s for work in attempts[-1])
                if any(work.stopped_by_s == now for work in attempts[-1]):
                    now += 0.5  # the losses of that instant have been
                while not (new := self.join(now, self.slots)):
                    now = self.later(now)
                joins = {slot for slot in joins if self.is_joined(slot, now)} | new
                attempts.append(self.attempt(int(now)))
            joins = {(r, s) for r, s in joins if not self.waits_for(s)}
            found.append(self.close(start_s, attempts, joins))
            start_s = found[-1].end_s
        return found

    # --- slots --------------------------------------------------------------------------------

    def lost_s(self, slot: tuple[int, int], since_s: int) -> int:
        """When the worker that joined at `since_s` is lost."""
        return min((gone_s for gone_s, _ in self.gone[slot] if gone_s >= since_s), default=NEVER)

    def is_joined(self, slot: tuple[int, int], t: float) -> bool:
        """At the instant t, before its losses."""
        since_s = max(j for j in self.joined_s[slot] if j <= t)
        return self.lost_s(slot, since_s) >= t

    def state(self, slot: tuple[int, int], t: int) -> str:
        """In the second from t on, of a slot that is not joined."""
        _, back_s = max(outage for outage in self.gone[slot] if outage[0] <= t)
        for name, until_s in (
            ("vacant", back_s),
            ("provision", back_s + self.w.provision_s),
            ("restore", back_s + self.w.provision_s + self.w.restore_s),
        ):
            if t < until_s:
                return name
        return "wait"

    def is_ready(self, slot: tuple[int, int], t: float) -> bool:
        """At the instant t, of a slot that is not joined."""
        _, back_s = max(outage for outage in self.gone[slot] if outage[0] < t)
        return back_s + self.w.provision_s + self.w.restore_s <= t

    def join(self, t: float, slots: list[tuple[int, int]]) -> set[tuple[int, int]]:
        """Of these slots, those that are ready at t join."""
        away = [slot for slot in slots if not self.is_joined(slot, t)]
        joining = {slot for slot in away if self.is_ready(slot, t)}
        for slot in joining:
            self.joined_s[slot].append(int(t))
        return joining

    def later(self, now: float) -> int:
        if now > 3000:
            raise RuntimeError("stalled")
        return int(now) + 1

    # --- replicas -----------------------------------------------------------------------------

    def is_inner(self, s: int) -> bool:
        return 0 < s < self.w.stages - 1

    def waits_for(self, s: int) -> bool:
        return self.w.waits and not (self.w.skips and self.is_inner(s))

    def stops(self, live: list[bool]) -> bool:
        return any(not on and not (self.w.skips and self.is_inner(s)) for s, on in enumerate(live))

    def attempt(self, t: int) -> list[Work]:
        return [self.follow(r, t) for r in range(self.w.replicas)]

    def follow(self, r: int, t: int) -> Work:
        """One replica from t until it has uploaded, or has stopped for this round."""
        work, did = self.once(r, t), []
        needed = [(r, s) for s in range(self.w.stages) if self.waits_for(s)]
        while self.w.waits and not work.finished:
            did += work.did
            now: float = work.release_s + (0.5 if work.stopped_by_s == work.release_s else 0)
            while not all(self.is_joined(x, now) or self.is_ready(x, now) for x in needed):
                now = self.later(now)
            self.join(now, needed)
            work = self.once(r, int(now))
        work.did = did + work.did
        return work

    def once(self, r: int, t: int) -> Work:
        """One attempt of a replica, step by step."""
        none = [False] * self.w.stages
        lost_s, live = [], []
        for s in range(self.w.stages):
            since_s = max(j for j in self.joined_s[r, s] if j <= t)
            lost_s.append(self.lost_s((r, s), since_s))
            live.append(lost_s[s] >= t or lost_s[s] + self.w.detect_s > t)
        if self.stops(live):
            return Work(t, [], none)
        begun, steps, did = t, [0] * self.w.stages, []
        while min(steps[s] for s in (0, -1)) < self.w.inner_steps:
            end = t + self.w.stage_s * sum(live)
            resume = -1  # when the last of the losses is known
            for lost, s in sorted((lost_s[s], s) for s, on in enumerate(live) if on):
                if lost >= end if resume < 0 else lost > resume:
                    break
                live[s] = False
                resume = max(resume, lost + self.w.detect_s)
                if self.stops(live):
                    return Work(resume, [], none, [(begun, resume, "lost", EVERY)], lost)
            if resume >= 0:
                did.append((t, resume, "lost", EVERY))
                t = resume
            else:
                did.append((t, end, "steps", list(live)))
                steps = [n + on for n, on in zip(steps, live, strict=True)]
                t = end
        up = t + self.w.upload_s
        did.append((t, up, "sync", list(live)))
        sends = [on and lost_s[s] >= up for s, on in enumerate(live)]
        failed = sorted((lost_s[s], s) for s, on in enumerate(live) if on and not sends[s])
        for lost, s in failed:
            if self.waits_for(s):
                known = lost + self.w.detect_s
                return Work(known, [], none, [(begun, known, "lost", EVERY)], lost)
        known = [lost + self.w.detect_s for lost, _ in failed]
        return Work(max([t, *known, *([up] if any(sends) else [])]), steps, sends, did)

    # --- the round ----------------------------------------------------------------------------

    def close(self, start: int, attempts: list[list[Work]], joins: set[tuple[int, int]]) -> Round:
        last = attempts[-1]
        exchange = max(work.release_s for work in last)
        sent = [sum(work.sends[s] for work in last) for s in range(self.w.stages)]
        fetched = {
            (r, s): self.w.download_s * (sent[s] - last[r].sends[s])
            for r, s in self.slots
            if self.is_joined((r, s), exchange)
        }
        end = exchange + max(fetched.values(), default=0)
        seconds: Counter[str] = Counter()
        for r, s in self.slots:
            did = [entry for works in attempts for entry in works[r].did]
            did.append((exchange, exchange + fetched.get((r, s), 0), "sync", EVERY))
            for second in range(start, end):
                seconds[self.look(r, s, second, did)] += 1
        h = [work.steps or [0] * self.w.stages for work in last]
        joined = [[int((r, s) in joins) for s in range(self.w.stages)] for r in range(len(h))]
        return Round(start, end, h, [work.sends for work in last], joined, seconds)

    def look(self, r: int, s: int, t: int, did: list[tuple[int, int, str, list[bool]]]) -> str:
        """The class of one slot-second."""
        since_s = max(j for j in self.joined_s[r, s] if j <= t)
        if self.lost_s((r, s), since_s) <= t:
            return self.state((r, s), t)
        found = [what for a, b, what, stages in did if a <= t < b and stages[s]]
        assert len(found) <= 1, (r, s, t, found)
        return found[0] if found else "wait"
