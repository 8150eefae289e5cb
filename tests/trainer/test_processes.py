"""Real training over processes: the same bits for any number of them, through kills and resumes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.test_checkpoint import everything
from trainer import shared
from trainer.config import Boundary, DiLoCo, SparseLoCo
from trainer.directive import Directive
from trainer.loop import Evaluation, Trainer
from trainer.replica import NonFiniteLoss
from trainer.workers import WorkerDied

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]
REPLICAS = 5
KINDS: dict[str, dict[str, Any]] = {
    "sparseloco": {"outer": SparseLoCo()},
    "diloco, shared, stage drop": {
        "stage_drop": 0.5,
        "outer": DiLoCo(name="diloco"),
        "boundary": Boundary(codec="shared", ratio=0.5, weak_replicas=2),
    },
}


@pytest.fixture
def directives(directive: MakeDirective) -> list[Directive]:
    masks = [[[3, 3, 3, 3] for _ in range(REPLICAS)] for _ in range(4)]
    joins = [[[0, 0, 0, 0] for _ in range(REPLICAS)] for _ in range(4)]
    masks[1][0] = [0, 0, 0, 0]
    masks[1][3] = masks[2][3] = [3, 1, 3, 3]
    masks[2][4] = [3, 3, 0, 3]
    joins[2][0], joins[3][3] = [1, 1, 1, 1], [0, 2, 0, 0]
    return [directive(g, masks[g], joins=joins[g]) for g in range(4)]


@pytest.fixture
def make(make_trainer: MakeTrainer) -> Iterator[Callable[..., Trainer]]:
    """`make(processes, kind)`: a trainer whose processes are up."""
    made: list[Trainer] = []

    def build(processes: int, kind: str = "sparseloco") -> Trainer:
        trainer = make_trainer(REPLICAS, eval_sequences=40, **KINDS[kind])
        made.append(trainer)
        trainer.use(processes)
        assert trainer.crew.wait() == processes
        return trainer

    yield build
    for trainer in made:
        trainer.close()


def go(trainer: Trainer, directives: list[Directive]) -> list[tuple[Any, ...]]:
    """Train them; what each step told."""
    told: list[tuple[Any, ...]] = []
    for each in directives:
        r = trainer.step(each)
        counts = (r.forward_calls, r.kept_values, r.code_counts)
        told.append((r.train_loss, r.train_tokens, r.hop_tokens, *(c.tolist() for c in counts)))
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_processes_gives_the_same_bits_also_when_it_changes(
    make: Callable[..., Trainer], directives: list[Directive], tmp_path: Path, kind: str
) -> None:
    """Counts, losses, evaluation, anchor, moments, outer memory; and checkpoints are exchanged."""
    alone = make(1, kind)
    expected = go(alone, directives)
    seen: list[Evaluation] = [alone.evaluate()]
    broken = make(3, kind)
    assert go(broken, directives[:1]) == expected[:1]
    broken.save(tmp_path)
    assert go(broken, directives[1:]) == expected[1:]
    two = make(1, kind)
    two.load(tmp_path)
    assert go(two, directives[1:2]) == expected[1:2]
    two.use(2)
    assert two.crew.wait() == 2
    assert go(two, directives[2:]) == expected[2:]
    for trainer in (broken, two):
        assert everything(trainer) == everything(alone)
        seen.append(trainer.evaluate())
    assert seen == seen[:1] * 3


def test_there_are_no_more_processes_than_replicas(make_trainer: MakeTrainer) -> None:
    with make_trainer(1) as trainer:
        trainer.use(8)
        assert trainer.crew.wait() == 1


def test_a_text_that_cannot_be_shared_is_trained_on_by_one(
    make_trainer: MakeTrainer, directives: list[Directive], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a limit on file sizes lies between the state and the text."""
    with make_trainer(REPLICAS) as trainer:
        monkeypatch.setattr(shared, "_anonymous_file", lambda nbytes: None)
        trainer.use(3)
        assert trainer.crew.wait() == 1
        go(trainer, directives[:1])


def test_a_bad_loss_and_a_killed_process_stop_the_step_and_a_load_goes_on_to_the_same_bits(
    make: Callable[..., Trainer], directives: list[Directive], tmp_path: Path
) -> None:
    trainer = make(3)
    go(trainer, directives[:1])
    trainer.save(tmp_path)
    before = trainer.anchor_sha256()

    for r in (2, 4):  # of several that are not finite, the first replica's is told
        trainer.state.replicas[r].first[1][:] = float("inf")
    with pytest.raises(NonFiniteLoss, match="global step 1, inner step 1, replica 2") as caught:
        trainer.step(directives[1])
    assert (caught.value.inner_step, caught.value.replica) == (1, 2)
    assert trainer.anchor_sha256() == before
    trainer.load(tmp_path)

    child = multiprocessing.active_children()[0]
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"trained replicas \d(-\d)? died \(exit code -9; out of"):
        go(trainer, directives[1:2])
    assert trainer.anchor_sha256() == before
    with pytest.raises(RuntimeError, match="load a checkpoint first"):
        trainer.step(directives[1])
    trainer.load(tmp_path)
    assert trainer.crew.size == 2
    go(trainer, directives[1:])
    straight = make(1)
    go(straight, directives)
    assert everything(trainer) == everything(straight)

    trainer.close()
    assert multiprocessing.active_children() == []
    assert trainer.evaluate() == straight.evaluate()  # it can still be read
