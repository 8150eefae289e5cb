"""The exchange that ends a round: who sends, who receives, how long it takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.replicas import Replicas
from sim.terms import Terms
from sim.via import Billed, Kinds, Members


@dataclass(frozen=True, eq=False)
class Exchange:
    """From `start_s` on every slot receives; the slowest ends the round.

    slot_s: [R, S] seconds until a slot has received all. sends: bool [R, S] updates that are in
    the aggregate. billed: bytes of all of it, uploads included.
    """

    start_s: float
    slot_s: NDArray[np.float64]
    sends: NDArray[np.bool_]
    billed: Billed
    seconds: float
    checkpoint_s: float | None = None
    """Seconds of the checkpoint that follows; None: none does."""

    @property
    def received_s(self) -> float:
        return self.start_s + self.seconds

    @property
    def end_s(self) -> float:
        """Of the round."""
        return self.received_s + (self.checkpoint_s or 0.0)

    def at(self, start_s: float, checkpoint_s: float | None = None) -> Exchange:
        """The same exchange at another time."""
        return Exchange(start_s, self.slot_s, self.sends, self.billed, self.seconds, checkpoint_s)

    @staticmethod
    def begin(
        start_s: float,
        terms: Terms,
        replicas: Replicas,
        joined: NDArray[np.bool_],
        kinds: Kinds,
    ) -> Exchange:
        """The exchange as it stands at its start (rules 3 and 4).

        A slot that is lost later, in the exchange, belongs to the next round: it counts as here.

        Args:
            joined: [R, S] slots that are present, and receive.
            kinds: [R, S] of their workers.
        """
        sends = replicas.sends(start_s)
        members = Members(sends, joined, kinds, terms.sizes.update_bytes)
        return Exchange.among(members, terms, start_s)

    @staticmethod
    def of_all(terms: Terms, kinds: Kinds) -> Exchange:
        """One of all slots, to be put at its time."""
        return Exchange.among(terms.everybody(kinds), terms, 0.0)

    @staticmethod
    def among(members: Members, terms: Terms, start_s: float) -> Exchange:
        """An exchange of these."""
        members.sends.flags.writeable = False
        slot_s, billed = terms.via.seconds(members), terms.via.billed(members)
        return Exchange(start_s, slot_s, members.sends, billed, float(slot_s.max()))
