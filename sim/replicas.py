"""The replicas of one round. Those alike share one plan until something happens to one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from sim.places import NEVER_S, Place
from sim.policies import Action
from sim.replica import ReplicaRound
from sim.roster import Roster
from sim.terms import Course, Kind, Terms


class Replicas:
    """Plans by replica: one a kind, and a replica's own once something hits it or if it jitters.

    So opening a round costs what is out of the ordinary, not all that there is.
    """

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self.terms, self.roster = terms, roster
        self.index = 0
        self.begun_s = -math.inf
        self.own: dict[int, ReplicaRound] = {}
        """Replicas that something happened to in this round."""
        self.waiting: set[int] = set()
        """Replicas that start (again) when their slots are ready."""
        self._plans: dict[Kind, ReplicaRound] = {}
        self._kind_of: dict[int, Kind] = {}  # of replicas that are not whole and not in own
        self._kinds = Counter({terms.whole: terms.replicas})  # of all that are not in own

    def begin(self, index: int, t_s: float) -> None:
        """Start an attempt of every replica at a global step."""
        is_as_before = not self.own and self.roster.is_calm_since(self.begun_s)
        self.index, self.begun_s, self._plans = index, t_s, {}
        if is_as_before:
            return
        self._kind_of = {}
        self._kinds = Counter({self.terms.whole: self.terms.replicas - len(self.own)})
        self.waiting.clear()
        for r in sorted(self.roster.odd | self.roster.uneven | self.own.keys()):
            self._begin(r, t_s)

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
        return self.own.get(r) or self._plan(self.kind(r))

    def kind(self, r: int) -> Kind:
        """Of a replica that nothing has happened to."""
        return self._kind_of.get(r, self.terms.whole)

    def release_s(self) -> float:
        """When the exchange can start: everybody has uploaded, or is known to have stopped.

        A quorum is enough, some time after its last one has uploaded.
        """
        alike_s = [course.release_s(self.begun_s) for course in self._courses()]
        last_s = max([plan.release_s for plan in self.own.values()] + alike_s)
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

    def anyone_finishes(self) -> bool:
        """Whether a replica completes its H steps."""
        own = any(plan.finished for plan in self.own.values())
        return own or any(course.action <= Action.SKIP for course in self._courses())

    def parts(self) -> Iterator[tuple[ReplicaRound, list[int]]]:
        """Plans and who follows them, those of whole replicas apart."""
        rows: dict[Kind, list[int]] = {}
        for r, kind in self._kind_of.items():
            rows.setdefault(kind, []).append(r)
        yield from ((self._plan(kind), alike) for kind, alike in rows.items())
        yield from ((replica, [r]) for r, replica in self.own.items())

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
            if r not in self.own:
                self.own[r] = ReplicaRound(self.terms)
                self._kinds[self.terms.whole] -= 1
            replica = self.own[r]
            vacancies = [place.vacancy for place in row] if self.terms.ages else ()
            replica.begin(t_s, here, leaves_s, pace, vacancies, crew)
            for place in unnoticed:
                replica.lose(place.slot[1], t_s, place.unseen_until_s, place.vacancy)
        else:
            self._kind_of[r] = kind = Kind(here, pace[0] if pace else (), crew)
            self._kinds[self.terms.whole] -= 1
            self._kinds[kind] += 1
        self._look_at(r)

    def _plan(self, kind: Kind) -> ReplicaRound:
        if kind not in self._plans:
            self._plans[kind] = self._new(kind)
        return self._plans[kind]

    def _own(self, r: int) -> ReplicaRound:
        if r not in self.own:
            kind = self._kind_of.pop(r, self.terms.whole)
            self._kinds[kind] -= 1
            self.own[r] = self._new(kind)
        return self.own[r]

    def _new(self, kind: Kind) -> ReplicaRound:
        """A plan of the kind in which nothing has happened yet."""
        plan = ReplicaRound(self.terms)
        pace = (kind.slow,) if kind.slow else ()
        plan.begin(self.begun_s, kind.mask, [NEVER_S] * len(kind.mask), pace, crew=kind.crew)
        return plan

    def _look_at(self, r: int) -> None:
        """Note whether a replica waits."""
        kind = self._kind_of.get(r)
        waits = self.own[r].waits if kind is None else self.terms.course(kind).action is Action.WAIT
        if waits:
            self.waiting.add(r)
        else:
            self.waiting.discard(r)

    def _uploaded_s(self) -> Iterator[float]:
        """When each of those that complete the round and send will have uploaded."""
        for plan, rows in self.parts():
            if any(plan.sends(plan.release_s)):
                yield from [plan.release_s] * len(rows)
        yield from [self._plan(self.terms.whole).release_s] * self._kinds[self.terms.whole]

    def _courses(self) -> list[Course]:
        """Of replicas that nothing has happened to, each kind once."""
        return [self.terms.course(kind) for kind, count in self._kinds.items() if count]
