"""A crew of processes: work split over it, errors and deaths told, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.workers import Crew, Task, WorkerDied, share

ROOT = Path(__file__).parents[2]


class Odd(Exception):
    """Cannot be built again from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Hand:
    """A worker for tests."""

    def __init__(self, name: str) -> None:
        self.name = name

    def whoami(self, part: list[int]) -> list[tuple[str, int, int]]:
        return [(self.name, os.getpid(), number) for number in part]

    def fail(self, part: list[int]) -> list[int]:
        if 5 in part:
            raise Odd(5, 6)
        if 2 in part:
            raise ValueError(f"part {part[0]}")
        return part

    def exit(self, here: int) -> None:
        if os.getpid() != here:
            os._exit(3)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture
def crew() -> Iterator[Crew[Hand]]:
    crew = Crew(Hand("here"), lambda: partial(Hand, "there"))
    yield crew
    crew.close()


def split(crew: Crew[Hand], do: Callable[..., list[object]], parts: int) -> list[object]:
    return crew.split(do, [1.0] * parts, lambda mine: (mine,), "counted numbers")


def test_work_is_split_over_those_who_are_up_and_comes_back_in_order(crew: Crew[Hand]) -> None:
    alone = split(crew, Hand.whoami, 5)
    assert alone == [("here", os.getpid(), number) for number in range(5)]
    crew.grow(3)
    first = split(crew, Hand.whoami, 5)  # they are hardly up: whoever is does it all
    assert [number for _, _, number in first] == list(range(5))  # type: ignore[misc]
    assert crew.wait() == crew.size == 3
    done = split(crew, Hand.whoami, 7)
    assert [number for _, _, number in done] == list(range(7))  # type: ignore[misc]
    assert [name for name, _, _ in done] == ["here"] * 2 + ["there"] * 5  # type: ignore[misc]
    assert len({pid for _, pid, _ in done}) == 3  # type: ignore[misc]
    assert len(split(crew, Hand.whoami, 1)) == 1
    assert split(crew, Hand.whoami, 0) == []
    crew.grow(2)
    assert crew.size == 3


def test_an_error_crosses_and_the_crew_goes_on(crew: Crew[Hand]) -> None:
    crew.grow(3)
    crew.wait()
    with pytest.raises(ValueError, match="part 2") as caught:
        split(crew, Hand.fail, 6)  # 2, 3 and 4, 5 both fail: the first part's is told
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Odd: 5 and 6"):  # what cannot be built again
        crew.split(Hand.fail, [1, 1], lambda mine: ([i + 4 for i in mine],), "failed")
    assert len(split(crew, Hand.whoami, 6)) == 6


def test_a_process_that_ends_by_itself_is_told_with_what_it_did(crew: Crew[Hand]) -> None:
    crew.grow(3)
    crew.wait()
    task = Task(Hand.exit, (os.getpid(),), "trained replicas 4-7")
    with pytest.raises(WorkerDied, match=r"that trained replicas 4-7 died \(exit code 3\)"):
        crew.call([task, None, task])
    assert crew.size == 2
    ((_, pid, _),) = crew.call([None, Task(Hand.whoami, ([0],), "said")])[1]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"counted numbers 1 died \(exit code -9; out of memory"):
        split(crew, Hand.whoami, 2)
    assert split(crew, Hand.whoami, 1) == [("here", os.getpid(), 0)]


def test_a_process_that_cannot_start_is_told() -> None:
    crew = Crew(Hand("here"), lambda: partial(os._exit, 7))
    crew.grow(2)
    with pytest.raises(WorkerDied, match=r"was to take part of the work died \(exit code 7\)"):
        crew.wait()
    assert crew.size == 1


def test_after_an_interrupt_the_others_are_waited_for(crew: Crew[Hand]) -> None:
    crew.grow(2)
    crew.wait()

    def interrupt(hand: Hand) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crew.call([Task(interrupt, (), "was interrupted"), Task(Hand.sleep, (0.3,), "slept")])
    begin = time.monotonic()
    assert len(split(crew, Hand.whoami, 2)) == 2
    assert time.monotonic() - begin > 0.2


PARENT = """
import sys
from tests.trainer.test_workers import Hand
from functools import partial
from trainer.workers import Crew, Task
if __name__ == "__main__":
    crew = Crew(Hand("here"), lambda: partial(Hand, "there"))
    crew.grow(3)
    crew.wait()
    print(*(child.process.pid for child in crew._children), flush=True)
    {then}
"""
BUSY = "crew.call([Task(Hand.sleep, (60,), 'slept')] * 3)"


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody reaps has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("then", "end"),
    [
        (BUSY, signal.SIGKILL),
        ("sys.stdin.read()", signal.SIGKILL),
        (BUSY, signal.SIGTERM),
        (BUSY, signal.SIGINT),
        ("pass", None),
    ],
)
def test_no_child_outlives_its_parent(
    tmp_path: Path, then: str, end: signal.Signals | None
) -> None:
    """However it ends, and whatever they do."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(then=then))
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        children = [int(pid) for pid in line.split()]
        assert len(children) == 2
        if end is not None:
            time.sleep(0.2)
            parent.send_signal(end)
        _, talk = parent.communicate(timeout=120)
    deadline = time.monotonic() + 5
    while any(map(alive, children)):
        assert time.monotonic() < deadline, "a child lives on"
        time.sleep(0.02)
    assert talk.count("KeyboardInterrupt") == (end is signal.SIGINT)  # none from a child


@given(st.lists(st.integers(0, 10**6), max_size=30), st.integers(1, 8))
def test_shares_are_in_order_and_nobody_does_much_more_than_his(
    costs: list[int], processes: int
) -> None:
    shares = share(costs, processes)
    assert len(shares) == processes
    assert [part for mine in shares for part in mine] == list(range(len(costs)))
    most = max(sum(costs[part] for part in mine) for mine in shares)
    assert most <= sum(costs) / processes + max(costs, default=0) + 1e-6


def test_equal_parts_are_split_evenly() -> None:
    assert share([1.0] * 8, 2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(map(len, share([1.0] * 8, 3))) == [3, 2, 3]
    assert share([1.0] * 2, 4) == [[], [0], [], [1]]
    assert share([0.0, 0.0], 2) == [[0, 1], []]
