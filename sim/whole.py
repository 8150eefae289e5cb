"""When all slots of a job are there: until the next loss, and again after it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from sim.clock import Process
from sim.news import News
from sim.roster import Roster
from sim.terms import Terms


@dataclass(eq=False)
class Whole:
    """The part of `restart` that does not depend on what the job was doing (rule 7).

    A loss stops the job when it is known. Slots that are still there load the last checkpoint
    then, vacant ones are filled and load it; when all are ready the job goes on. A removal that
    was announced is a loss that is known at once.
    """

    terms: Terms
    roster: Roster
    news: News

    @property
    def is_now(self) -> bool:
        return bool(self.roster.joined.all())

    @property
    def known_s(self) -> float:
        """When the loss that has just stopped the job is known."""
        places = (place for r in self.roster.odd for place in self.roster.row(r))
        return min(place.unseen_until_s for place in places if not place.joined)

    def lasts(self, end_s: float) -> Generator[simpy.Event, Any, bool]:
        """Whether it is whole until then; a loss at the very end is the next one's (rule 12)."""
        while self.news.env.now < end_s:
            self.news.take_losses(is_training=False)
            if not self.is_now:
                return False
            yield from self.news.bell.sleep(end_s)
        return True

    def recover(
        self, reload: Callable[[float], float], check_patience: Callable[[], None]
    ) -> Process:
        """Until all slots are ready. Ready slots come before the losses of an instant (rule 12).

        Args:
            reload: what those who are there do, told since when; returns when it is done.
            check_patience: raises if this has gone on for too long.
        """
        news, known_s = self.news, self.known_s
        news.is_watched = True
        while news.env.now < known_s:
            yield from news.bell.sleep(known_s)
            if news.env.now < known_s:
                news.take_losses(is_training=False)
        reloaded_s = reload(known_s)
        while max(reloaded_s, self.roster.last_ready_s()) > news.env.now:
            news.take_losses(is_training=False)
            check_patience()
            yield from news.bell.sleep(max(reloaded_s, self.roster.last_ready_s()))
        news.is_watched = False
        for place in self.roster.ready(news.env.now):
            place.last = self.roster.join(place, news.env.now)
