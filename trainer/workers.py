"""Processes that share the work of one run: they live as long as it, and take tasks.

What a process is asked for must not depend on which one it is: then results are the same for any
number of them. Large things lie in memory that all share; tasks and results are small.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

W = TypeVar("W")
SPAWN = get_context("spawn")
"""A forked child of a process with threads may hang."""
REAP_S = 5.0


class WorkerDied(RuntimeError):
    """A process of the run ended by itself: the step cannot be committed.

    exit_code: -9 where it was killed, by the kernel for want of memory most often.
    """

    def __init__(self, what: str, exit_code: int | None) -> None:
        why = f"exit code {exit_code}" + ("; out of memory?" if exit_code == -9 else "")
        super().__init__(f"the process that {what} died ({why})")
        self.what, self.exit_code = what, exit_code

    def __reduce__(self) -> tuple[type[WorkerDied], tuple[str, int | None]]:
        return WorkerDied, (self.what, self.exit_code)


@dataclass(frozen=True)
class Task:
    """A call of a method of the worker. told: what it does, to say if the process dies."""

    do: Callable[..., Any]
    args: tuple[Any, ...]
    told: str


@dataclass(eq=False)
class _Child:
    process: SpawnProcess
    pipe: Connection
    is_ready: bool = False
    owes: Task | None = None


class Crew(Generic[W]):
    """This process and others like it, each with a worker.

    here: the worker of this process. recruit: asked once, when there is need, for what builds its
    like in another process; that is pickled.
    Other processes are started by `grow` and count once they are up; until then, and when there
    are none, this process does everything.
    """

    def __init__(self, here: W, recruit: Callable[[], Callable[[], W]]) -> None:
        self.here = here
        self._recruit = cache(recruit)
        self._children: list[_Child] = []
        weakref.finalize(self, _kill, self._children)

    def grow(self, processes: int) -> None:
        """Start more processes if there are fewer, this one counted in."""
        while 1 + len(self._children) < processes:
            ours, theirs = SPAWN.Pipe()
            process = SPAWN.Process(target=_serve, args=(self._recruit(), theirs), daemon=True)
            with _interrupts_held_back():
                process.start()
            theirs.close()  # else the pipe would not end with the child
            self._children.append(_Child(process, ours))

    @property
    def size(self) -> int:
        """Processes that can work now. Raises WorkerDied if one died while it started."""
        for child in list(self._children):
            if not child.is_ready and child.pipe.poll():
                self._receive(child)
        return 1 + len(self._up())

    def wait(self) -> int:
        """Wait until all processes are up; how many there are."""
        for child in list(self._children):
            if not child.is_ready:
                self._receive(child)
        return self.size

    def call(self, tasks: Sequence[Task | None]) -> list[Any]:
        """Do each task in a process of its own, the first one here; results in their order.

        tasks: at most `size`; None is not done and gives None.

        Raises what a task raised, of several the first in order; all have ended then, except
        after an interrupt (see `settle`). Raises WorkerDied.
        """
        self.settle()
        hands = list(zip(tasks[1:], self._up(), strict=False))
        for task, child in hands:
            if task is not None:
                self._send(child, task)
        outcomes: list[Any] = []
        if tasks and tasks[0] is not None:
            outcomes.append(_outcome(tasks[0].do, self.here, *tasks[0].args))
        else:
            outcomes.append(None)
        outcomes += [self._receive(child) if task is not None else None for task, child in hands]
        for outcome in outcomes:
            if isinstance(outcome, _Raised):
                raise outcome.error
        return outcomes

    def split(
        self,
        do: Callable[..., list[Any]],
        costs: Sequence[float],
        args: Callable[[list[int]], tuple[Any, ...]],
        told: str,
    ) -> list[Any]:
        """Do parts 0..n-1 of some work over the processes; their results in order.

        do: does some parts, given `args` of their numbers. costs: what each part costs, by any
        measure. told: what is done to which parts, to be followed by their numbers.

        Raises what a part raised, of several the first part's; WorkerDied.
        """
        shares = share(costs, self.size)
        tasks = [
            Task(do, args(mine), f"{told} {_range(mine)}") if mine else None for mine in shares
        ]
        return [result for done in self.call(tasks) for result in done or ()]

    def settle(self) -> None:
        """Wait for what other processes still do for a call that was interrupted."""
        for child in [child for child in self._children if child.owes is not None]:
            self._receive(child)

    def close(self) -> None:
        """End the other processes at once; they hold nothing that is not in shared memory."""
        _kill(self._children)

    def _up(self) -> list[_Child]:
        return [child for child in self._children if child.is_ready]

    def _send(self, child: _Child, task: Task) -> None:
        child.owes = task
        with contextlib.suppress(OSError):  # it is dead: `_receive` will find out
            child.pipe.send((task.do, task.args))

    def _receive(self, child: _Child) -> Any:
        try:
            reply = child.pipe.recv()
        except (EOFError, OSError):
            child.process.join(REAP_S)  # the pipe ends a moment before the process does
            self._children.remove(child)
            _kill([child])
            what = child.owes.told if child.owes is not None else "was to take part of the work"
            raise WorkerDied(what, child.process.exitcode) from None
        child.is_ready, child.owes = True, None
        return reply


@dataclass(frozen=True)
class _Raised:
    error: BaseException


def _outcome(do: Callable[..., Any], *args: Any) -> Any:
    try:
        return do(*args)
    except Exception as error:
        return _Raised(error)


def share(costs: Sequence[float], processes: int) -> list[list[int]]:
    """Parts of some work by process: in order, and about equal in cost."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    total, before = sum(costs), 0.0
    for part, cost in enumerate(costs):
        middle = (before + cost / 2) / total if total else 0.0
        shares[min(int(middle * processes), processes - 1)].append(part)
        before += cost
    return shares


def _range(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"


def _kill(children: list[_Child]) -> None:
    for child in children:
        if child.process.exitcode is None:
            child.process.kill()
    for child in children:
        child.process.join()
        child.pipe.close()
    children.clear()


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A child is born deaf to Ctrl-C, which a terminal sends to all: the parent ends it."""
    resource_tracker.ensure_running()  # when it starts, it lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the other process ---------------------------------------------------------------------


def _serve(make: Callable[[], Any], pipe: Connection) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = make()
    reply: Any = None
    while True:
        try:
            pipe.send(reply)
            do, args = pipe.recv()
        except (EOFError, OSError):  # the parent is gone
            return
        reply = _outcome(do, worker, *args)
        if isinstance(reply, _Raised):
            reply = _portable(reply.error)


def _portable(error: BaseException) -> _Raised:
    """The error as the parent can read it, with the trace that it would lose on its way."""
    trace = "".join(traceback.format_exception(error))
    try:
        error = pickle.loads(pickle.dumps(error))
    except Exception:  # its class does not say how it is built again
        return _Raised(RuntimeError(trace))
    error.add_note(f"in another process:\n{trace}")
    return _Raised(error)


def _end_with_parent() -> None:
    """Also in the middle of a task, and however the parent ends."""
    parent = parent_process()
    assert parent is not None, "this is a child"
    connection.wait([parent.sentinel])
    os._exit(1)
