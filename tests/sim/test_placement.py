"""Who sits where: rule 13 refined by `cluster.place`, `fill` and `move_to_ends`."""

from __future__ import annotations

from typing import Any

import pytest

from sim.config import Cluster, Pool
from sim.placement import Placement
from tests.sim.worlds import SKIP, gone, job, rows_of

FOUR_PLACES = {"ends": "a", "inner": ["b", "c"]}


def seats(workers: dict[str, int], replicas: int, stages: int, **place: Any) -> list[str]:
    """One word a replica: the pool of each slot."""
    cluster = Cluster.model_validate({"replicas": replicas, "stages": stages, "place": place})
    pools = {name: Pool(workers=count) for name, count in workers.items()}
    names = [name for name, count in workers.items() for _ in range(count)]
    found = Placement(cluster, pools).seats
    assert len(set(found)) == len(found)
    word = "".join(names[number] for number in found)
    return [word[r * stages : (r + 1) * stages] for r in range(replicas)]


def test_ends_and_inner_stages_sit_in_their_pools() -> None:
    assert seats({"s": 6, "d": 6}, 3, 4, ends="d", inner="s") == ["dssd"] * 3
    assert seats({"s": 8, "d": 6}, 3, 4, ends="d") == ["dssd"] * 3
    assert seats({"a": 4, "b": 2, "c": 2}, 2, 4, **FOUR_PLACES) == ["abba", "acca"]


def test_packed_replicas_sit_in_one_zone_where_they_fit() -> None:
    assert seats({"a": 5, "b": 5}, 2, 4) == ["aaaa", "bbbb"]
    assert seats({"a": 6, "b": 6}, 3, 4) == ["aaaa", "bbbb", "aabb"]
    assert seats({"d": 4, "a": 3, "b": 3}, 2, 4, ends="d") == ["daad", "dbbd"]


def test_spread_replicas_have_each_stage_in_every_zone() -> None:
    assert seats({"a": 4, "b": 4}, 2, 4, zones="spread") == ["abab", "baba"]
    assert seats({"a": 2, "b": 6}, 2, 4, zones="spread") == ["abab", "bbbb"]


def test_without_place_worker_i_takes_slot_i() -> None:
    cluster = Cluster(replicas=2, stages=3)
    pools = {"a": Pool(workers=4), "b": Pool(workers=4)}
    found = Placement(cluster, pools)
    assert found.seats == list(range(6))
    assert all(found.serves(name, stage) for name in pools for stage in range(3))


def test_a_pool_serves_what_it_is_named_for() -> None:
    def serves(**place: Any) -> dict[str, str]:
        cluster = Cluster.model_validate({"replicas": 1, "stages": 3, "place": place})
        pools = {name: Pool(workers=3) for name in "ab"}
        found = Placement(cluster, pools)
        return {n: "".join(str(int(found.serves(n, s))) for s in range(3)) for n in pools}

    assert serves(ends="a", inner="b") == {"a": "101", "b": "010"}
    assert serves(ends="a") == {"a": "101", "b": "010"}
    assert serves(inner="a") == {"a": "010", "b": "101"}
    assert serves(ends="a", inner=["b", "a"]) == {"a": "111", "b": "010"}
    assert serves(ends=["a", "b"]) == {"a": "111", "b": "111"}
    assert serves(zones="spread") == {"a": "111", "b": "111"}


@pytest.mark.parametrize(
    ("workers", "place", "says"),
    [
        ({"a": 3, "b": 9}, {"ends": "a"}, r"4 ends need at least 4 workers of a \(got 3\)"),
        ({"a": 9, "b": 3}, {"ends": "a"}, r"4 inner need at least 4 workers of b \(got 3\)"),
        ({"a": 4, "b": 3}, {}, r"8 slots .* need at least 8 workers of a, b \(got 7\)"),
        ({"a": 8, "b": 8}, {"ends": "c"}, r"ends: no such pool \(got c; there are \['a', 'b'\]\)"),
        ({"a": 8, "b": 1}, {"ends": "a", "inner": "a"}, "the workers of b would serve no slot"),
        (
            {"a": 4, "b": 8},
            {"ends": ["a", "b"], "inner": "a"},
            "inner: the ends take too many of a",
        ),
    ],
)
def test_who_does_not_fit_is_told(workers: dict[str, int], place: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        seats(workers, 2, 4, **place)


def test_a_spare_takes_only_slots_that_its_pool_serves() -> None:
    """An end and an inner slot of replica 0 are lost; the spare of the inner pool takes one."""
    pools = {"d": Pool(workers=4), "s": Pool(workers=3)}
    script = {"end": gone(0, 0, 1.0), "inner": gone(0, 1, 1.0)}
    a_job = job(script, pools=pools, cluster={"place": {"ends": "d", "inner": "s"}}, rounds=2)
    list(a_job.global_steps())
    assert rows_of(a_job, 0, 0)[-1][:2] == (-1, "vacant")
    assert [row[0] for row in rows_of(a_job, 0, 1)] == [4, 6, 6]


def test_a_script_names_a_worker_by_the_slot_it_starts_in() -> None:
    pools = {"s": Pool(workers=2), "d": Pool(workers=4)}
    a_job = job({"o": gone(1, 2, 1.0)}, pools=pools, cluster={"place": {"ends": "d"}}, rounds=1)
    list(a_job.global_steps())
    spell = a_job.spells()[0]
    assert (spell.worker, spell.zone) == (5, "d")


LOST = {  # replica 0 loses an inner slot and then an end, replica 1 an inner slot
    "first": gone(0, 1, 1.0),
    "second": gone(0, 2, 2.0),
    "third": gone(1, 1, 2.5),
}


def first_filled(fill: str, script: dict[str, Any], spares: int = 1) -> list[tuple[int, int]]:
    """Slots that spares took, all of whom boot until the losses are known, by worker."""
    a_job = job(script, cluster={"fill": fill}, spares=spares, rounds=1, detect_s=8.0)
    list(a_job.global_steps())
    taken = {row[2]: row[:2] for row in a_job.timeline() if row[2] >= 6}
    return [taken[number] for number in sorted(taken)]


def test_fill_says_which_vacant_slot_comes_first() -> None:
    """Losses are known at the same instant, so that the spare chooses."""
    together = {name: {**outage, "gone_s": 2.0} for name, outage in LOST.items()}
    assert first_filled("in_order", together) == [(0, 1)]
    assert first_filled("ends_first", together) == [(0, 2)]
    assert first_filled("fewest_missing_first", together) == [(1, 1)]
    assert first_filled("fewest_missing_first", together, spares=3) == [(1, 1), (0, 1), (0, 2)]


def test_a_worker_that_returns_follows_fill_and_its_old_slot_wins_among_equals() -> None:
    """An inner slot and two ends are vacant when the worker of one of them is back."""
    lost = {"inner": gone(0, 1, 2.0), "end": gone(0, 2, 2.0), "other": gone(1, 2, 2.0)}
    for name, worker, fill, slot in (
        ("inner", 1, "in_order", (0, 1)),
        ("inner", 1, "ends_first", (0, 2)),
        ("inner", 1, "fewest_missing_first", (1, 2)),
        ("other", 5, "in_order", (1, 2)),
        ("other", 5, "ends_first", (1, 2)),
    ):
        script = {**lost, name: {**lost[name], "back_s": 5.0}}
        a_job = job(script, replicas=3, cluster={"fill": fill}, rounds=1)
        list(a_job.global_steps())
        place = a_job.roster.workers[worker].place
        assert place is not None
        assert place.slot == slot


def test_an_inner_worker_moves_to_a_vacant_end_at_the_boundary() -> None:
    """The end (0, 2) is lost at 1 s for good. Replica 1 ends its round at 16 s: there worker 1
    leaves the inner slot and restores for 3 s; at the next boundary replica 0 skips its stage 1."""
    idle, moved = (
        job({"o": gone(0, 2, 1.0)}, cluster={"move_to_ends": moves}, rounds=4, policy=SKIP)
        for moves in (False, True)
    )
    masks = [[step.steps[0].tolist() for step in a_job.global_steps()] for a_job in (idle, moved)]
    assert masks == [[[0, 0, 0]] * 4, [[0, 0, 0], [0, 0, 0], [4, 0, 4], [4, 0, 4]]]
    assert rows_of(moved, 0, 2)[1:4] == [
        (-1, "vacant", 1.0, 16.0),
        (1, "restore", 16.0, 19.0),
        (1, "wait", 19.0, 32.0),
    ]
    assert rows_of(moved, 0, 1)[-1][:3] == (-1, "vacant", 16.0)
    assert len(moved.spells()) == 1, "who moves is not away"
    assert moved.roster.losses == 1


def test_nobody_moves_where_a_spare_can_fill_the_end() -> None:
    a_job = job({"o": gone(0, 2, 1.0)}, cluster={"move_to_ends": True}, rounds=3, spares=1)
    list(a_job.global_steps())
    assert a_job.roster.workers[1].place is a_job.roster.places[1]
    assert a_job.roster.workers[6].place is a_job.roster.places[2]


def test_who_moves_ends_a_stall() -> None:
    """The only replica has lost an end for good: without moving nobody would ever train."""
    a_job = job({"o": gone(0, 0, 1.0)}, replicas=1, cluster={"move_to_ends": True}, rounds=2)
    first, _ = a_job.global_steps()
    assert first.steps.tolist() == [[4, 0, 4]]
    assert first.joins.tolist() == [[2, 0, 0]]
    assert first.end_s == 1 + 3 + 4 * 2 + 2
