"""A corpus of made-up sentences, small models, and directives by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.config import Boundary, Inner, Method, Model, Outer, SparseLoCo, TextData, Train
from trainer.directive import Directive
from trainer.loop import Trainer, setup_torch

WORDS = (
    "the",
    "stage",
    "is",
    "out",
    "and",
    "a",
    "healthy",
    "replica",
    "trains",
    "what",
    "is",
    "left",
)
SMALL = Model(d=16, layers=4, heads=2, ffn=24, seq=8)
H = 3


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    setup_torch(1)


@pytest.fixture(scope="session")
def text_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with words.txt, 6,000 words in lines of ten."""
    folder = tmp_path_factory.mktemp("text")
    picks = np.random.default_rng(0).integers(0, len(WORDS), size=(600, 10))
    lines = [" ".join(WORDS[i] for i in line) for line in picks]
    (folder / "words.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture
def make_trainer(text_root: Path) -> Callable[..., Trainer]:
    """`make_trainer(replicas, stages, outer=..., inner={...}, ...)`: H = 3 inner steps a round."""

    def make(
        replicas: int = 2,
        stages: int = 4,
        outer: Outer | None = None,
        boundary: Boundary | None = None,
        inner: dict[str, Any] | None = None,
        global_steps: int = 6,
        seed: int = 0,
        **train: Any,
    ) -> Trainer:
        data = TextData(source="text", path="words.txt", vocab=300)
        settings: dict[str, Any] = {"model": SMALL, "eval_sequences": 16} | train
        return Trainer(
            Train(data=data, inner=Inner(**(inner or {})), **settings),
            Method(inner_steps=H, outer=outer or SparseLoCo(), boundary=boundary or Boundary()),
            replicas,
            stages,
            global_steps,
            seed,
            text_root,
        )

    return make


@pytest.fixture
def directive() -> Callable[..., Directive]:
    """`directive(index, steps, sends=..., joins=...)`: who trains H steps sends, by default."""

    def make(index: int, steps: Any, sends: Any = None, joins: Any = None) -> Directive:
        steps = np.array(steps, dtype=np.int32)
        sends = steps == H if sends is None else np.array(sends, dtype=bool)
        joins = np.zeros_like(steps) if joins is None else np.array(joins)
        return Directive(index, steps, sends, joins.astype(np.int8))

    return make
