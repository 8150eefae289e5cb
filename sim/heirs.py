"""Spares that load the state of a slot from the worker that will leave it, and then sit there."""

from __future__ import annotations

from collections.abc import Callable

from sim.places import NEVER_S, Place, Worker
from sim.vacancies import Vacancies


class Heirs:
    """A spare loads the whole state of a slot beside the round, and sits there from a boundary on.

    Args:
        transfer: (stage, kinds of two workers) -> (bytes, seconds) of a slot's whole state from
            the one to the other.
    """

    def __init__(
        self, transfer: Callable[[int, int, int], tuple[int, float]], vacancies: Vacancies
    ) -> None:
        self._transfer, self._vacancies = transfer, vacancies
        self._heirs: dict[Place, tuple[Worker, float]] = {}
        self._wanting = vacancies.line()
        self.last_s = -NEVER_S
        """When the last of them that was chosen has its state."""

    def choose(self, place: Place, t_s: float) -> int:
        """A slot's worker will leave: bytes that begin to travel; none without a spare or time."""
        is_left = place not in self._heirs
        heir = self._vacancies.spare_for(place.slot[1], t_s) if is_left else None
        if heir is None or place.worker is None:
            return 0
        nbytes, transfer_s = self._transfer(place.slot[1], place.worker.kind, heir.kind)
        if t_s + transfer_s > place.leaves_s:
            return 0
        heir.is_heir = True
        self._heirs[place] = heir, t_s + transfer_s
        self.last_s = max(self.last_s, t_s + transfer_s)
        return nbytes

    def want(self, place: Place) -> None:
        """The worker of a slot that has joined was bought: a spare should follow it one day."""
        self._wanting.add(place, -NEVER_S)

    def relieve(self, t_s: float) -> int:
        """Spares that no vacant slot needs begin to load such states: bytes that do."""

        def has_spare(stage: int) -> bool:
            return self._vacancies.spare_for(stage, t_s) is not None

        nbytes = 0
        while found := self._wanting.heads(t_s, self._is_wanting, has_spare):
            nbytes += self.choose(min(found, key=self._vacancies.rank), t_s)
        return nbytes

    def _is_wanting(self, place: Place) -> bool:
        is_bought = place.worker is not None and place.worker.on_call
        stays = place.joined and place.leaves_s == NEVER_S
        return is_bought and stays and place not in self._heirs

    def forget(self, lost: Worker) -> bool:
        """A worker is lost: whether a spare was loading its state, or it somebody's."""
        place = lost.place if lost.place in self._heirs else self._of(lost)
        if place is not None:
            self._release(place, is_there=not lost.is_heir)
        return place is not None

    def announced(self, heir: Worker) -> None:
        """A removal is announced: it follows nobody who could stay."""
        place = self._of(heir)
        if place is not None and place.leaves_s == NEVER_S:
            self._release(place, is_there=True)

    def take_over(self, t_s: float) -> list[tuple[Place, Worker]]:
        """Slots whose state has arrived by t, and the spares that have it; once each."""
        due = [(place, heir) for place, (heir, at_s) in self._heirs.items() if at_s <= t_s]
        for place, heir in due:
            del self._heirs[place]
            heir.is_heir = False
        return due

    def _of(self, heir: Worker) -> Place | None:
        """The slot whose state it loads."""
        if not heir.is_heir:
            return None
        return next(place for place, (chosen, _) in self._heirs.items() if chosen is heir)

    def _release(self, place: Place, is_there: bool) -> None:
        """Its heir is a spare again, if it is there; the slot may want another."""
        heir, _ = self._heirs.pop(place)
        heir.is_heir = False
        if is_there:
            self._vacancies.is_idle(heir)
        self.want(place)
