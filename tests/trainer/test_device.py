"""Training off the CPU, as far as it can be tested without one: where tensors lie, and bf16.

Torch's meta device computes shapes only, but refuses to mix devices as a GPU does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainer.config import Boundary, Outer, SparseLoCo
from trainer.directive import Directive
from trainer.loop import Trainer
from trainer.work import DeviceError, Worker, device_of

MakeTrainer = Callable[..., Trainer]
MakeDirective = Callable[..., Directive]
META = torch.device("meta")
BOUNDARIES = [Boundary(), Boundary(codec="shared"), Boundary(codec="independent")]


def test_what_the_choice_means_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto") == device_of("cpu") == torch.device("cpu")
    with pytest.raises(DeviceError, match="sees no GPU here: say auto or cpu"):
        device_of("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of("auto") == device_of("cuda") == torch.device("cuda")
    assert device_of("cpu") == torch.device("cpu")


def test_without_a_gpu_cuda_is_refused_and_auto_is_the_cpu(
    make_trainer: MakeTrainer, directive: MakeDirective, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError):
        make_trainer(device="cuda")
    told = []
    for device in ("auto", "cpu"):
        trainer = make_trainer(device=device)
        trainer.step(directive(0, [[3, 1, 3, 3], [3] * 4]))
        told.append((trainer.anchor_sha256(), trainer.evaluate(), trainer._identity()))
    assert told[0] == told[1]


def tensors(thing: Any, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that an object of ours holds, however deep."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield "", thing
    elif isinstance(thing, torch.nn.Module):
        for name, tensor in [*thing.named_parameters(), *thing.named_buffers()]:
            yield name, tensor
        for name in ("flat", "codec"):
            for below, tensor in tensors(getattr(thing, name, None), seen):
                yield f"{name}.{below}", tensor
    elif isinstance(thing, list | tuple):
        for item in thing:
            yield from tensors(item, seen)
    elif type(thing).__module__.startswith("trainer.") and hasattr(thing, "__dict__"):
        for name, item in vars(thing).items():
            for below, tensor in tensors(item, seen):
                yield f"{name}.{below}", tensor


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda b: b.codec)
def test_everything_is_made_on_the_device_and_steps_mix_no_devices(
    make_trainer: MakeTrainer, boundary: Boundary
) -> None:
    job = make_trainer(boundary=boundary).worker.job
    worker = Worker(job, device=META)
    assert worker.memory is None
    found = dict(tensors(worker, set()))
    assert len(found) > 30
    assert {tensor.device.type for tensor in found.values()} == {"meta"}
    worker.replica.take(1, worker.state.replicas[1], worker.links[1])
    sequences = worker._batch(1, 0, 0)
    for live in ([0, 1, 2, 3], [0, 2, 3]):
        loss = worker.replica.pipeline.loss(sequences, live)
        torch.autograd.backward(loss)
        assert loss.device.type == "meta"


@pytest.mark.parametrize(
    "outer", [SparseLoCo(bits=32), SparseLoCo(bits=32, aggregate="mean_senders")]
)
def test_an_upload_mixes_no_devices(make_trainer: MakeTrainer, outer: Outer) -> None:
    worker = Worker(make_trainer(outer=outer).worker.job, device=META)
    method: Any = worker._stage_outer(1)
    theta, local = worker.state.anchor[1], worker.state.replicas[0].local[1]
    sent, held = method.upload(0, theta, local, worker.state.memory[0][1])
    assert {t.device.type for t in (sent.index, sent.value, held)} == {"meta"}
    assert method.merge(0, theta, [sent, sent], 2).device.type == "meta"


def test_products_in_bf16_leave_parameters_moments_and_losses_in_fp32(
    make_trainer: MakeTrainer, directive: MakeDirective
) -> None:
    """As on a GPU, by the CPU's autocast; it learns the same to the precision of bf16."""
    exact, half = make_trainer(), make_trainer()
    half.worker.replica.is_bf16 = True
    seen: list[torch.dtype] = []
    head = half.worker.replica.pipeline.stages[3]
    head.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    for g in range(3):
        one, other = (t.step(directive(g, [[3] * 4] * 2)) for t in (exact, half))
        assert other.train_loss == pytest.approx(one.train_loss, rel=2e-3)
    assert set(seen) == {torch.bfloat16}
    assert half.anchor_sha256() != exact.anchor_sha256()
    assert half.evaluate().val_loss == pytest.approx(exact.evaluate().val_loss, rel=2e-3)
    kept = [tensor for part in half._parts().values() for tensor in part.values()]
    assert {tensor.dtype for tensor in kept} == {torch.float32}


def test_the_check_for_a_gpu_refuses_where_there_is_none() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(root / "benchmarks" / "gpu.py")],
        env={**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "sees no GPU here" in done.stderr
