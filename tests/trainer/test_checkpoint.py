"""Saved in the middle, a run goes on to the same bits; an altered checkpoint is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainer.checkpoint import CheckpointError
from trainer.config import Average, SparseLoCo
from trainer.directive import Directive
from trainer.loop import Trainer
from trainer.replica import NonFiniteLoss

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]

MASKS = [
    [[3, 3, 3, 3], [3, 0, 3, 3]],
    [[3, 3, 2, 3], [3, 0, 3, 3]],
    [[3, 3, 0, 3], [3, 3, 3, 3]],
    [[0, 0, 0, 0], [3, 3, 3, 3]],
]
JOINS = {2: [[0, 0, 0, 0], [0, 2, 0, 0]]}


def everything(trainer: Trainer) -> dict[str, bytes]:
    return {
        f"{part}/{name}": tensor.contiguous().numpy().tobytes()
        for part, tensors in trainer._parts().items()
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("outer", [SparseLoCo(), Average(name="average")])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_run_goes_on_to_the_same_bits(
    make_trainer: MakeTrainer,
    directive: MakeDirective,
    tmp_path: Path,
    outer: SparseLoCo | Average,
    at: int,
) -> None:
    directives = [directive(g, mask, joins=JOINS.get(g)) for g, mask in enumerate(MASKS)]
    straight = make_trainer(outer=outer)
    broken = make_trainer(outer=outer)
    losses = [straight.step(d).train_loss for d in directives]
    for d in directives[:at]:
        broken.step(d)
    broken.save(tmp_path)
    if at < 3:
        broken.step(directives[at])  # work after the checkpoint, lost
    resumed = make_trainer(outer=outer)
    for trainer in (resumed, broken):
        trainer.load(tmp_path)
        assert trainer.committed == at
        assert [trainer.step(d).train_loss for d in directives[at:]] == losses[at:]
        assert everything(trainer) == everything(straight)
        assert trainer.evaluate() == straight.evaluate()


def test_the_anchor_is_saved_by_plain_names(
    make_trainer: MakeTrainer, directive: MakeDirective, tmp_path: Path
) -> None:
    trainer = make_trainer()
    trainer.step(directive(0, MASKS[0]))
    trainer.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "model.safetensors",
        "outer-0.safetensors",
        "outer-1.safetensors",
        "replica-0.safetensors",
        "replica-1.safetensors",
        "trainer.json",
    ]
    saved = load_file(tmp_path / "model.safetensors")
    assert saved.keys() == {n for stage in trainer.model.shapes for n in stage}
    assert torch.equal(saved["embed"], trainer.model.named(0)["embed"])


def test_after_a_step_that_was_not_finite_only_a_load_helps(
    make_trainer: MakeTrainer, directive: MakeDirective, tmp_path: Path
) -> None:
    trainer = make_trainer()
    trainer.step(directive(0, MASKS[0]))
    (tmp_path / "good").mkdir()
    trainer.save(tmp_path / "good")
    good = everything(trainer)
    calls = itertools.count(1)

    def spoil(module: object, inputs: object, output: Tensor) -> Tensor:
        return output * float("nan") if next(calls) > 3 else output  # replica 0 did its three

    last = trainer.worker.replica.pipeline.stages[3]
    hook = last.register_forward_hook(spoil)
    with pytest.raises(NonFiniteLoss, match="global step 1, inner step 0, replica 1"):
        trainer.step(directive(1, MASKS[1]))
    hook.remove()
    with pytest.raises(RuntimeError, match="load a checkpoint first"):
        trainer.save(tmp_path)
    trainer.load(tmp_path / "good")
    assert everything(trainer) == good
    straight = make_trainer()
    for t, first in ((straight, 0), (trainer, 1)):
        for g in range(first, 3):
            t.step(directive(g, MASKS[g], joins=JOINS.get(g)))
    assert everything(trainer) == everything(straight)


@pytest.fixture
def saved(make_trainer: MakeTrainer, directive: MakeDirective, tmp_path: Path) -> Path:
    trainer = make_trainer()
    trainer.step(directive(0, MASKS[0]))
    trainer.save(tmp_path)
    return tmp_path


def edit(path: Path, **changes: object) -> None:
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | changes))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


def vouch(folder: Path, name: str) -> None:
    """Make trainer.json agree with an altered file."""
    import hashlib

    facts = json.loads((folder / "trainer.json").read_text())
    facts["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "trainer.json").write_text(json.dumps(facts))


def reshape(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"norm": torch.ones(17)}, folder / "model.safetensors")
    vouch(folder, "model.safetensors")


def drop(folder: Path) -> None:
    tensors = load_file(folder / "outer-1.safetensors")
    del tensors["stage.2"]
    save_file(tensors, folder / "outer-1.safetensors")
    vouch(folder, "outer-1.safetensors")


def garble(folder: Path) -> None:
    (folder / "outer-1.safetensors").write_bytes(b"not tensors")
    vouch(folder, "outer-1.safetensors")


TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "no facts": (lambda f: (f / "trainer.json").unlink(), "cannot read .*trainer.json"),
    "no model": (lambda f: (f / "model.safetensors").unlink(), "cannot read .*model"),
    "cut facts": (lambda f: (f / "trainer.json").write_text('{"form'), "not JSON"),
    "deep facts": (lambda f: (f / "trainer.json").write_text("[" * 10**5), "not JSON"),
    "a list": (lambda f: (f / "trainer.json").write_text("[]"), "not a trainer checkpoint"),
    "format": (lambda f: edit(f / "trainer.json", format=99), "not a trainer checkpoint"),
    "no digest": (lambda f: edit(f / "trainer.json", sha256=None), "lacks committed"),
    "negative": (lambda f: edit(f / "trainer.json", committed=-1), "committed is -1"),
    "too far": (lambda f: edit(f / "trainer.json", committed=7), "committed is 7"),
    "text": (lambda f: edit(f / "trainer.json", committed="1"), "committed is '1'"),
    "model bit": (lambda f: flip(f / "model.safetensors"), "model.* is not the file"),
    "state bit": (lambda f: flip(f / "outer-1.safetensors"), "outer-1.* is not the file"),
    "shape": (reshape, "norm is F32\\[17\\], not F32"),
    "missing": (drop, r"lacks or has too many of \['stage.2'\]"),
    "garbage": (garble, "is not safetensors"),
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_an_altered_checkpoint_is_refused_and_changes_nothing(
    make_trainer: MakeTrainer, saved: Path, kind: str
) -> None:
    tamper, message = TAMPERING[kind]
    trainer = make_trainer()
    before = everything(trainer)
    tamper(saved)
    with pytest.raises(CheckpointError, match=message):
        trainer.load(saved)
    assert everything(trainer) == before
    assert trainer.committed == 0


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"seed": 1}, "seed was 0, is 1"),
        ({"global_steps": 7}, "global_steps was 6, is 7"),
        ({"inner": {"lr": 0.1}}, "inner differ"),
        ({"outer": SparseLoCo(lr=1.0)}, "method differ"),
        ({"replicas": 3}, "replicas was 2, is 3"),
        ({"stages": 2}, "stages was 4, is 2"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    make_trainer: MakeTrainer, saved: Path, other: dict[str, object], what: str
) -> None:
    with pytest.raises(CheckpointError, match=f"of another run: .*{what}"):
        make_trainer(**other).load(saved)
