"""The arithmetic of memory against what a process really takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.config import Average, Boundary, DiLoCo, Method, SparseLoCo, Train
from trainer.memory import PROGRAM_BYTES, TEXT_BYTES, memory_bytes
from trainer.sizes import parameters

MEASURE = """
import json, sys
from pathlib import Path
import numpy as np
from trainer.config import Method, Train
from trainer.directive import Directive
from trainer.loop import Trainer, setup_torch
setup_torch(1)
told = json.loads(sys.argv[1])
train, method = Train(**told["train"]), Method(**told["method"])
trainer = Trainer(train, method, told["replicas"], 4, 2, 0, Path(told["root"]))
for g in range(2):
    steps = np.ones((told["replicas"], 4), np.int32)
    trainer.step(Directive(g, steps, steps > 0, np.zeros_like(steps, np.int8)))
trainer.evaluate()
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(line.split()[1]) * 1024)
"""

SMALL = Train(model="small")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize(
    ("train", "method", "replicas"),
    [
        ({"model": "tiny", "eval_sequences": 16}, {}, 4),
        ({"model": "small", "eval_sequences": 16}, {"outer": {"name": "diloco"}}, 4),
    ],
)
def test_it_is_what_a_run_takes_to_ten_per_cent(
    text_root: Path, train: dict[str, object], method: dict[str, object], replicas: int
) -> None:
    """On a text that takes next to nothing."""
    method = {"inner_steps": 1, **method}
    train = {"data": {"source": "text", "path": "long.txt", "vocab": 1024}, **train}
    (text_root / "long.txt").write_text((text_root / "words.txt").read_text() * 3)
    told = json.dumps(
        {"train": train, "method": method, "replicas": replicas, "root": str(text_root)}
    )
    found = subprocess.check_output(
        [sys.executable, "-c", MEASURE, told],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
    )
    parts = memory_bytes(Train(**train), Method(**method), replicas, 4)
    expected = sum(parts.values()) - TEXT_BYTES
    assert expected == pytest.approx(int(found), rel=0.1)


def test_each_part_by_hand() -> None:
    count = sum(parameters(SMALL.shape(), 4, Boundary()))
    found = memory_bytes(SMALL, Method(outer=SparseLoCo()), 3, 4, processes=2)
    assert found["parameters"] == (3 + 2) * 4 * count  # the anchor, the next, each replica's
    assert found["adam"] == 3 * 8 * count
    assert found["outer"] == 3 * 4 * count
    assert found["gradients"] == 2 * 4 * count
    assert found["program"] == 2 * PROGRAM_BYTES
    assert found["text"] == TEXT_BYTES
    dense = memory_bytes(SMALL, Method(outer=Average(name="average")), 3, 4)
    assert (dense["outer"], dense["tables"]) == (0, 0)
    assert memory_bytes(SMALL, Method(outer=DiLoCo(name="diloco")), 3, 4)["outer"] == 4 * count


def test_more_of_anything_takes_more() -> None:
    base = sum(memory_bytes(SMALL, Method(), 2, 4).values())
    for train, replicas, processes in (
        (SMALL, 3, 1),
        (SMALL, 2, 2),
        (Train(model="base"), 2, 1),
        (Train(model="small", inner={"sequences": 64}), 2, 1),
    ):
        assert sum(memory_bytes(train, Method(), replicas, 4, processes).values()) > base
    shared = Method(boundary=Boundary(codec="shared"))
    assert memory_bytes(SMALL, shared, 2, 4)["adam"] < memory_bytes(SMALL, Method(), 2, 4)["adam"]
