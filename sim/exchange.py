"""The exchange that ends a round: who sends, who fetches, how long it takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.replicas import Replicas
from sim.terms import Terms


@dataclass(frozen=True, eq=False)
class Exchange:
    """Through a store: every slot uploads its update and fetches those of the other replicas.

    sends: bool [R, S] complete uploads. downloads: int [R, S] updates that the slot fetches.
    Slots have uploaded by `start_s`; each fetches from then on, and the slowest ends the round.
    """

    start_s: float
    download_s: float
    sends: NDArray[np.bool_]
    downloads: NDArray[np.int64]

    @property
    def end_s(self) -> float:
        return self.start_s + self.download_s

    def at(self, start_s: float) -> Exchange:
        """The same exchange at another time."""
        return Exchange(start_s, self.download_s, self.sends, self.downloads)

    @staticmethod
    def begin(
        start_s: float, terms: Terms, replicas: Replicas, joined: NDArray[np.bool_]
    ) -> Exchange:
        """The exchange as it stands at its start (rules 3 and 4).

        A slot that is lost later, in the download, belongs to the next round: it counts as here.

        Args:
            joined: [R, S] slots that are present, and fetch.
        """
        sends = np.ones((terms.replicas, terms.stages), dtype=np.bool_)
        for plan, rows in replicas.parts():
            sends[rows] = plan.sends()
        sends.flags.writeable = False
        downloads = (sends.sum(axis=0) - sends) * joined
        largest = int((downloads * np.asarray(terms.sizes.update_bytes)).max())
        return Exchange(start_s, terms.links.down.seconds(largest), sends, downloads)
