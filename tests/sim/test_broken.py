"""Each mechanism broken on purpose turns a named test red (validation.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim import pipeline, replica
from sim.account import LedgerError
from sim.exchange import Exchange
from sim.ledger import Ledger
from sim.places import Place
from sim.policies import Action
from sim.replicas import Replicas
from sim.roster import Roster
from sim.strikes import PublishedRegime
from sim.terms import Terms
from tests.sim import (
    test_pipeline,
    test_rule_09,
    test_rules_01_to_06,
    test_rules_07_to_08,
    test_rules_10_to_11,
    test_rules_12_to_14,
    test_theory,
)

Break = Callable[[Callable[..., Any]], Callable[..., Any]]


def restore_twice(restore: Any) -> Any:
    def broken(self: Terms, *which: Any) -> tuple[int, float]:
        nbytes, restore_s = restore(self, *which)
        return 2 * nbytes, restore_s

    return broken


def slow_restore(restore: Any) -> Any:
    def broken(self: Terms, *which: Any) -> tuple[int, float]:
        nbytes, restore_s = restore(self, *which)
        return nbytes, 2 * restore_s

    return broken


def no_links(way: Any) -> Any:
    return lambda *given: way()


def one_round_more(out: Any) -> Any:
    def broken(self: PublishedRegime, slot: tuple[int, int]) -> None:
        out(self, slot)
        self._left[slot] += 1

    return broken


def known_at_once(gone: Any) -> Any:
    return lambda self, worker, t_s, cause, is_known=False: gone(self, worker, t_s, cause, True)


def billed_while_away(gone: Any) -> Any:
    def broken(self: Roster, worker: Any, *args: Any, **kwargs: Any) -> None:
        gone(self, worker, *args, **kwargs)
        self.payroll.paid[worker.zone] += 1

    return broken


def losses_before_ends(completed: Any) -> Any:
    return lambda self, t_s: completed(self, t_s - 1e-9)


def for_nobody(begin: Any) -> Any:
    return staticmethod(lambda *given: begin(*given[:3], given[3] & False, *given[4:]))


def no_egress(bill: Any) -> Any:
    return lambda self, round_s, billed_s, egress: bill(self, round_s, billed_s, 0.0)


def never_noticed(announce: Any) -> Any:
    return lambda self, place, t_s: None


def never_waits(answer: Any) -> Any:
    return lambda self, *asked: {Action.WAIT: Action.IDLE}.get(a := answer(self, *asked), a)


def noticed_before_it_strikes(lost_unnoticed: Any) -> Any:
    return lambda self, t_s: False


@pytest.mark.parametrize(
    ("owner", "name", "broken", "turns_red"),
    [
        (
            Terms,
            "restore",
            restore_twice,
            test_rules_01_to_06.test_rule_05_the_restore_overlaps_the_running_round,
        ),
        (
            Terms,
            "restore",
            slow_restore,
            test_rules_07_to_08.test_rule_08_a_stall_passes_time_and_no_index,
        ),
        (
            pipeline,
            "Way",
            no_links,
            test_pipeline.test_skipping_a_stage_shortens_the_step_and_saves_a_hop,
        ),
        (
            PublishedRegime,
            "out",
            one_round_more,
            test_theory.test_validation_05_the_engines_degraded_share,
        ),
        (
            PublishedRegime,
            "out",
            one_round_more,
            test_rule_09.test_rule_09_one_stage_is_out_for_d_rounds_the_failing_one_first,
        ),
        (
            Roster,
            "gone",
            known_at_once,
            test_rules_01_to_06.test_rule_03_the_exchange_starts_when_the_last_one_awaited_is_known_lost,
        ),
        (Roster, "gone", billed_while_away, test_theory.test_validation_23_the_bill_to_the_cent),
        (
            replica.Phase,
            "completed",
            losses_before_ends,
            test_rules_12_to_14.test_rule_12_a_loss_at_the_exact_end_of_a_step_finds_it_complete,
        ),
        (
            Exchange,
            "begin",
            for_nobody,
            test_rules_01_to_06.test_rule_06_an_idle_replica_loses_its_data_and_gets_every_update,
        ),
        (Ledger, "_bill", no_egress, test_theory.test_validation_23_the_bill_to_the_cent),
        (
            Replicas,
            "announce",
            never_noticed,
            test_rules_10_to_11.test_rule_10_under_wait_it_works_until_it_cannot_and_then_waits,
        ),
        (
            Terms,
            "answer",
            never_waits,
            test_rules_07_to_08.test_rule_07_wait_restarts_the_round_when_the_last_slot_is_ready,
        ),
        (
            Place,
            "lost_unnoticed",
            noticed_before_it_strikes,
            test_rules_01_to_06.test_rule_03_a_loss_in_the_download_belongs_to_the_next_round,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_broken_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    broken: Break,
    turns_red: Callable[[], None],
) -> None:
    turns_red()
    monkeypatch.setattr(owner, name, broken(getattr(owner, name)))
    with pytest.raises((AssertionError, LookupError, LedgerError)):
        turns_red()
