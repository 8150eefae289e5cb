"""The replicas of one round. Those alike share one plan until something happens to one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sim.places import NEVER_S, Place
from sim.policies import Action
from sim.replica import ReplicaRound
from sim.roster import Roster
from sim.terms import Course, Kind, Terms


class Replicas:
    """Plans by replica: one a kind, and a replica's own once something hits it or if it jitters.

    A replica keeps its kind from round to round until a slot of it changes. So opening a round
    costs what has happened, not all that there is.
    """

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self.terms, self.roster = terms, roster
        self.index = 0
        self.begun_s = -math.inf
        self.own: dict[int, ReplicaRound] = {}
        """Replicas that something happened to in this round."""
        self.waiting: set[int] = set()
        """Replicas that start (again) when their slots are ready."""
        self._left: set[int] = set()
        """Replicas that something happened to in the round before."""
        self._plans: dict[Kind, ReplicaRound] = {}
        self._kind_of: list[Kind | None] = [terms.whole] * terms.replicas
        """None: it has a plan of its own."""
        self._kinds = Counter({terms.whole: terms.replicas})  # of all that have one
        self._sends = np.ones((terms.replicas, terms.stages), dtype=np.bool_)  # as their kind does
        self._release_s: float | None = None  # None: to be found anew
        self._alike_s: float | None = None  # the part of it that replicas which have a kind make

    def open(self) -> None:
        """A round is over: nothing has happened in the next one yet."""
        if self.own:
            self._left |= self.own.keys()
            self.own.clear()

    def begin(self, index: int, t_s: float) -> None:
        """Start an attempt of every replica at a global step."""
        self.index, self.begun_s, self._release_s, self._alike_s = index, t_s, None, None
        self._plans.clear()
        if self.own or self._left or self.roster.unplanned:
            due = self.roster.unplanned | self._left | self.own.keys()
            self._left.clear()
            for r in sorted(due):
                self._begin(r, t_s)
            self.roster.unplanned.clear()

    def restart(self, r: int, t_s: float) -> None:
        """Start another attempt of one replica."""
        self._own(r)
        self._begin(r, t_s)

    def lose(self, place: Place, t_s: float) -> None:
        """A slot is lost at t."""
        r, s = place.slot
        self._own(r).lose(s, t_s, place.unseen_until_s, place.vacancy)
        self._look_at(r)

    def give_up(self, r: int, t_s: float) -> None:
        """A replica waits no more and idles: its wait has run out."""
        self._own(r).give_up(t_s)
        self._look_at(r)

    def announce(self, place: Place, t_s: float) -> None:
        """A removal is announced at t."""
        r, s = place.slot
        self._own(r).announce(s, t_s, place.leaves_s)
        self._look_at(r)

    # --- what they say --------------------------------------------------------------------

    def __getitem__(self, r: int) -> ReplicaRound:
        """The plan of a replica; to read, others may share it."""
        kind = self._kind_of[r]
        return self.own[r] if kind is None else self._plan(kind)

    def kind(self, r: int) -> Kind | None:
        """Of a replica that nothing has happened to; None: something has."""
        return self._kind_of[r]

    def release_s(self) -> float:
        """When the exchange can start: everybody has uploaded, or is known to have stopped.

        A quorum is enough, some time after its last one has uploaded.
        """
        if self._release_s is None:
            self._release_s = self._next_release_s()
        return self._release_s

    def _next_release_s(self) -> float:
        if self._alike_s is None:
            released_s = [course.release_s(self.begun_s) for course in self._courses()]
            self._alike_s = max(released_s, default=-NEVER_S)
        last_s = max([plan.release_s for plan in self.own.values()], default=-NEVER_S)
        last_s = max(last_s, self._alike_s)
        quorum = self.terms.quorum
        if quorum is None:
            return last_s
        uploaded_s = sorted(self._uploaded_s())
        if len(uploaded_s) < quorum.replicas:
            return last_s
        return min(last_s, uploaded_s[quorum.replicas - 1] + quorum.grace_s)

    def leave_out(self, start_s: float) -> None:
        """The exchange starts: those it does not await have trained in vain."""
        if self.terms.quorum is not None:
            for r in range(self.terms.replicas):
                if self[r].finished and self[r].release_s > start_s:
                    self._own(r).cut(start_s)
                    self._look_at(r)

    def anyone_finishes(self) -> bool:
        """Whether a replica completes its H steps."""
        alike = any(course.action <= Action.SKIP for course in self._courses())
        return alike or any(plan.finished for plan in self.own.values())

    def sends(self, exchange_s: float) -> NDArray[np.bool_]:
        """[R, S] updates that are in the aggregate of an exchange that begins then."""
        sends = self._sends.copy()
        for r, plan in self.own.items():
            sends[r] = plan.sends(exchange_s)
        return sends

    # --- how they share -------------------------------------------------------------------

    def _begin(self, r: int, t_s: float) -> None:
        """Start an attempt; a loss that is not noticed yet strikes at its first instant."""
        row, pace = self.roster.row(r), self.roster.pace_of(r, self.index)
        crew = self.terms.crew(r, self.roster.kinds[r].tolist())
        unnoticed = [place for place in row if place.lost_unnoticed(t_s)]
        here = tuple(place.joined or place in unnoticed for place in row)
        leaves_s = [NEVER_S if self.terms.restarts else place.leaves_s for place in row]
        has_age = self.terms.ages and not all(here)
        is_alone = unnoticed or min(leaves_s) < NEVER_S or has_age or (pace and self.terms.jitters)
        if is_alone or r in self.own:
            self._set_kind(r, None)
            replica = self.own.setdefault(r, ReplicaRound(self.terms))
            vacancies = [place.vacancy for place in row] if self.terms.ages else ()
            replica.begin(t_s, here, leaves_s, pace, vacancies, crew)
            for place in unnoticed:
                replica.lose(place.slot[1], t_s, place.unseen_until_s, place.vacancy)
        else:
            self._set_kind(r, Kind(here, pace[0] if pace else (), crew))
        self._look_at(r)

    def _set_kind(self, r: int, kind: Kind | None) -> None:
        before = self._kind_of[r]
        if kind == before:
            return
        self._kind_of[r] = kind
        if before is not None:
            self._kinds[before] -= 1
            if not self._kinds[before]:
                del self._kinds[before]
                self._alike_s = None
        if kind is not None:
            if kind not in self._kinds:
                self._alike_s = None
            self._kinds[kind] += 1
            self._sends[r] = self.terms.course(kind).sends

    def _plan(self, kind: Kind) -> ReplicaRound:
        """The one that replicas of a kind share: nothing has happened in it yet."""
        if kind not in self._plans:
            plan = self._plans[kind] = ReplicaRound(self.terms)
            pace = (kind.slow,) if kind.slow else ()
            plan.begin(self.begun_s, kind.mask, [NEVER_S] * len(kind.mask), pace, crew=kind.crew)
        return self._plans[kind]

    def _own(self, r: int) -> ReplicaRound:
        kind = self._kind_of[r]
        if kind is not None:
            self._set_kind(r, None)
            self.own[r] = self._plan(kind).copy()
        return self.own[r]

    def _look_at(self, r: int) -> None:
        """Note whether a replica waits."""
        self._release_s = None
        kind = self._kind_of[r]
        waits = self.own[r].waits if kind is None else self.terms.course(kind).action is Action.WAIT
        if waits:
            self.waiting.add(r)
        else:
            self.waiting.discard(r)

    def _uploaded_s(self) -> Iterator[float]:
        """When each of those that complete the round and send will have uploaded."""
        for kind, count in self._kinds.items():
            course = self.terms.course(kind)
            if any(course.sends):
                yield from [course.release_s(self.begun_s)] * count
        for plan in self.own.values():
            if any(plan.sends(plan.release_s)):
                yield plan.release_s

    def _courses(self) -> list[Course]:
        """Of replicas that nothing has happened to, each kind once."""
        return [self.terms.course(kind) for kind in self._kinds]
