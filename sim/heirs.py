"""Slots whose worker is announced to leave, and the spares that load their state in time."""

from __future__ import annotations

from collections.abc import Callable

from sim.places import Place, Worker
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

    def choose(self, place: Place, t_s: float, gone_s: float) -> int:
        """A removal is announced: bytes that begin to travel; none without a spare or the time."""
        heir = self._vacancies.spare_for(place, t_s)
        if place in self._heirs or heir is None or place.worker is None:
            return 0
        nbytes, transfer_s = self._transfer(place.slot[1], place.worker.kind, heir.kind)
        if t_s + transfer_s > gone_s:
            return 0
        heir.is_heir = True
        self._heirs[place] = heir, t_s + transfer_s
        return nbytes

    def forget(self, lost: Worker) -> None:
        """A worker is lost: if a spare was loading its state, it is a spare again."""
        for place, (heir, _) in list(self._heirs.items()):
            if lost in (heir, place.worker):
                del self._heirs[place]
                heir.is_heir = False
                if heir is not lost:
                    self._vacancies.is_idle(heir)

    def take_over(self, t_s: float) -> list[tuple[Place, Worker]]:
        """Slots whose state has arrived by t, and the spares that have it; once each."""
        due = [(place, heir) for place, (heir, at_s) in self._heirs.items() if at_s <= t_s]
        for place, heir in due:
            del self._heirs[place]
            heir.is_heir = False
        return due
