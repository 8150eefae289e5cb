"""When a replica that waits goes on, and what it does then. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sim.places import NEVER_S, Place
from sim.policies import Action
from sim.terms import Terms


def may_join(place: Place, terms: Terms, t_s: float) -> bool:
    """Whether a slot that is away could join a round that starts again at t."""
    is_ready = not place.joined and place.ready_s <= t_s
    return is_ready and terms.keeps_state[place.slot[1]]


def goes_on(row: Sequence[Place], terms: Terms, not_before_s: float) -> tuple[float, Action]:
    """The first instant at which those who are here leave nothing to wait for; infinite: never.

    That is when a slot is ready, or when a wait has lasted as long as it may. Of one instant the
    slots come first (rule 12).

    Args:
        row: the slots of the replica.
        not_before_s: what stopped the replica is known from then on.

    Returns:
        The instant, and what the replica does from it on.
    """
    away = [place for place in row if not place.joined]
    instants_s = {not_before_s}
    for place in away:
        instants_s |= {place.ready_s, *terms.runs_out_s(place.vacancy)}
    vacancies = [place.vacancy for place in row] if terms.ages else None
    for t_s in sorted(instants_s):
        if not_before_s <= t_s < NEVER_S:
            here = [place.joined or may_join(place, terms, t_s) for place in row]
            action = terms.answer(here, t_s, vacancies)
            if action is not Action.WAIT:
                return t_s, action
    return NEVER_S, Action.WAIT
