"""What the bill has beside node-seconds and egress: the minimum of a worker, and storage."""

from __future__ import annotations

import pytest

from sim.network import links
from sim.payroll import Restores
from tests.sim.worlds import IDLE, MB, SKIP, WAIT, gone, job, network, run


def test_a_worker_lost_before_the_minimum_is_billed_for_the_minimum() -> None:
    """Lost at 5 s: 35 s more; back at 20 s and lost at 40 s: 20 s more; the others stay."""
    script = {"first": gone(0, 1, 5, 20), "again": gone(0, 1, 40, 500)}
    steps = run(script, policy=SKIP, usd_per_h=3600.0, billing_minimum_s=40.0)
    plain = run(script, policy=SKIP, usd_per_h=3600.0)
    assert [step.unused_s for step in steps] == [35.0, 0.0, 20.0]
    assert [step.node_s for step in steps] == [step.node_s for step in plain]
    for step, other in zip(steps, plain, strict=True):
        assert step.usd["compute"] == pytest.approx(other.usd["compute"] + step.unused_s)


def test_a_spare_pays_the_minimum_too_and_a_worker_lost_later_its_seconds() -> None:
    script = {"late": gone(0, 1, 20, 30)}
    assert sum(step.unused_s for step in run(script, billing_minimum_s=20.0)) == 0
    assert sum(step.unused_s for step in run(script, billing_minimum_s=21.0)) == 1


@pytest.mark.parametrize(("policy", "snapshot"), [(IDLE, 0), (WAIT, 6 * 5 * MB)])
def test_the_store_holds_anchor_uploads_and_the_newest_snapshot(
    policy: list[str], snapshot: int
) -> None:
    held = 3 * 3 * MB + 6 * 2 * MB + snapshot
    for step in run(policy=policy):
        assert step.stored_byte_s == held * (step.end_s - step.start_s)
        assert step.usd["storage"] == 0.0


def test_a_replica_that_sends_nothing_fills_no_bucket() -> None:
    first = run({"end": gone(0, 0, 1, 100)}, policy=IDLE)[0]
    assert first.stored_byte_s == (9 * MB + 3 * 2 * MB) * first.end_s


def test_a_gigabyte_month_costs_its_price() -> None:
    """21 MB for 16 s at 7,300 dollars for a gigabyte and 730 hours."""
    priced = network(usd_per_gb_month=7300.0)
    assert links(priced, {}).stored_usd_per_byte_s * 1e9 * 730 * 3600 == pytest.approx(7300)
    for step in run(links=priced):
        assert step.usd["storage"] == pytest.approx(21e-3 * 16 / (730 * 3600) * 7300)
        assert step.usd["egress"] == 0.0


@pytest.mark.parametrize(("again_s", "nbytes"), [(1.0, [0, 7]), (3.0, [10, 7])])
def test_a_restore_that_has_begun_is_billed_whatever_its_worker_does_next(
    again_s: float, nbytes: list[int]
) -> None:
    """One is to begin at 2 s and, unless another comes before that, has."""
    worker, restores = job().roster.workers[0], Restores()
    restores.expect(worker, 0.0, 2.0, 10)
    restores.expect(worker, again_s, 4.0, 7)
    assert [restores.settle(t_s) for t_s in (3.0, 4.0)] == nbytes
