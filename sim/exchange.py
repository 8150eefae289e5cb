"""The exchange that ends a round: who sends, who fetches, how long it takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.network import Links
from sim.pipeline import StepTimes
from sim.records import Sizes
from sim.replica import ReplicaRound
from sim.roster import Place


@dataclass(frozen=True)
class Exchange:
    """Through a store: every slot uploads its update and fetches those of the other replicas.

    sends: bool [R, S] complete uploads. downloads: int [R, S] updates that the slot fetches.
    """

    start_s: float
    end_s: float
    sends: NDArray[np.bool_]
    downloads: NDArray[np.int64]

    @staticmethod
    def begin(
        start_s: float,
        replicas: Sequence[ReplicaRound],
        places: Sequence[Place],
        update_bytes: Sequence[int],
        links: Links,
    ) -> Exchange:
        """The exchange as it stands at its start (rules 3 and 4).

        A slot that is lost later, in the download, belongs to the next round: it counts as here.
        """
        shape = (len(replicas), len(update_bytes))
        sends = np.zeros(shape, dtype=np.bool_)
        for r, replica in enumerate(replicas):
            if replica.finished:
                sends[r] = replica.sends()
        present = np.array([p.joined or p.gone_s >= start_s for p in places]).reshape(shape)
        downloads = (sends.sum(axis=0) - sends) * present
        largest = float((downloads * np.asarray(update_bytes)).max())
        return Exchange(start_s, start_s + links.down.seconds(largest), sends, downloads)


def healthy_round_s(
    sizes: Sizes, times: StepTimes, links: Links, replicas: int, inner_steps: int
) -> float:
    """Seconds of a round in which nothing fails: steps, the slowest upload, the download."""
    stages = len(sizes.update_bytes)
    largest = max(sizes.update_bytes)
    return (
        inner_steps * times.of((True,) * stages)[0]
        + links.up.seconds(largest)
        + links.down.seconds((replicas - 1) * largest)
    )
