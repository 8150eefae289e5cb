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

    def choose(self, place: Place, t_s: float) -> int:
        """A slot's worker will leave: bytes that begin to travel; none without a spare or time."""
        heir = None if place in self._heirs else self._vacancies.spare_for(place, t_s)
        if heir is None or place.worker is None:
            return 0
        nbytes, transfer_s = self._transfer(place.slot[1], place.worker.kind, heir.kind)
        if t_s + transfer_s > place.leaves_s:
            return 0
        heir.is_heir = True
        self._heirs[place] = heir, t_s + transfer_s
        return nbytes

    def ready_s(self) -> float:
        """When the last of them will have its state; at once if there is none."""
        return max((at_s for _, at_s in self._heirs.values()), default=-NEVER_S)

    def forget(self, lost: Worker) -> bool:
        """A worker is lost: whether a spare was loading its state, or it somebody's."""
        found = [place for place, (heir, _) in self._heirs.items() if lost in (heir, place.worker)]
        for place in found:
            self._release(place, is_there=self._heirs[place][0] is not lost)
        return bool(found)

    def announced(self, heir: Worker) -> None:
        """A removal is announced: it follows nobody who could stay."""
        found = [place for place, (chosen, _) in self._heirs.items() if chosen is heir]
        for place in found:
            if place.leaves_s == NEVER_S:
                self._release(place, is_there=True)

    def take_over(self, t_s: float) -> list[tuple[Place, Worker]]:
        """Slots whose state has arrived by t, and the spares that have it; once each."""
        due = [(place, heir) for place, (heir, at_s) in self._heirs.items() if at_s <= t_s]
        for place, heir in due:
            del self._heirs[place]
            heir.is_heir = False
        return due

    def _release(self, place: Place, is_there: bool) -> None:
        """Its heir is a spare again, if it is there."""
        heir, _ = self._heirs.pop(place)
        heir.is_heir = False
        if is_there:
            self._vacancies.is_idle(heir)
