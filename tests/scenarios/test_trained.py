"""What has been trained: its key, its record, its checkpoints."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from scenarios.trained import Round, Training
from trainer.results import Evaluation, StepResult


def some_round(loss: float = 0.1) -> Round:
    counts = np.arange(6).reshape(2, 3)
    result = StepResult(loss, 7, counts, counts * 0, {(0, 1): 5, (1, 2): 4}, counts + 1, counts[0])
    return Round(result, Evaluation(1 / 3, 2.5, {1: 4.0, 2: 5.0}))


def recorded(training: Training, rounds: int) -> str:
    training.path.mkdir(parents=True, exist_ok=True)
    text = "".join(some_round(1 / (i + 3)).line(i) for i in range(rounds))
    training.record.write_text(text)
    return text


def test_a_round_is_read_back_to_the_bit(tmp_path: Path) -> None:
    training = Training(tmp_path / "key", "", 9)
    recorded(training, 3)
    for i, found in enumerate(training.rounds()):
        meant = some_round(1 / (i + 3))
        assert found.seen == meant.seen
        assert found.result.train_loss == meant.result.train_loss
        assert found.result.hop_tokens == meant.result.hop_tokens
        for key in ("forward_calls", "dropped", "kept_values", "code_counts"):
            assert np.array_equal(getattr(found.result, key), getattr(meant.result, key)), key


def test_a_record_ends_where_it_is_cut_and_an_altered_one_is_not_done(tmp_path: Path) -> None:
    training = Training(tmp_path / "key", "", 9)
    assert training.rounds() == []
    text = recorded(training, 3)
    assert training.done() is None
    training.finish("abc", {"device": "cpu"})
    found = training.done()
    assert found is not None
    assert (found["anchor_sha256"], found["environment"]) == ("abc", {"device": "cpu"})
    training.record.write_text(text[:-20])
    assert len(training.rounds()) == 2
    assert training.done() is None


def test_checkpoints_keep_the_last_two_and_where_others_begin(tmp_path: Path) -> None:
    training = Training(tmp_path / "key", "", 9, keep_at=frozenset({1}))
    for done in (1, 2, 3, 4):
        training.save_checkpoint(done, lambda path: (path / "x").touch())
    assert [done for done, _ in training.checkpoints_newest_first()] == [4, 3, 1]
    recorded(training, 4)
    training.finish("abc", {})
    assert [done for done, _ in training.checkpoints_newest_first()] == [1]


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    training = Training(tmp_path / "key", "", 9)
    training.save_checkpoint(1, lambda path: None)

    def full(path: Path) -> None:
        (path / "half").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        training.save_checkpoint(2, full)
    assert [path.name for path in training.checkpoints.iterdir()] == ["00000001"]


def test_what_a_kill_leaves_aside_does_not_pile_up(tmp_path: Path) -> None:
    training = Training(tmp_path / "key", "", 9)
    killed = multiprocessing.get_context("spawn").Process(target=_killed_saving, args=(training,))
    killed.start()
    killed.join()
    assert len(list(training.checkpoints.iterdir())) == 1
    training.save_checkpoint(1, lambda path: None)
    assert [path.name for path in training.checkpoints.iterdir()] == ["00000001"]


def _killed_saving(training: Training) -> None:
    training.save_checkpoint(1, lambda path: os._exit(9))
