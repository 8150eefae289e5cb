"""What a training is known by: no key too many, none too few, and defaults do not count."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from scenarios.identity import TRAINED_FORMAT, training_identity
from scenarios.load import Loaded
from scenarios.plan import prepared
from trainer.config import (
    Average,
    BinData,
    DiLoCo,
    JsonlData,
    Method,
    Model,
    ParquetData,
    TextData,
    Train,
    WikiData,
)
from trainer.corpora import CorpusError, documents

Small = Callable[..., Loaded]


def identity(loaded: Loaded) -> dict[str, Any]:
    return training_identity(prepared(loaded.scenario, loaded.root, with_training=True))


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "global_steps=7",
        "cluster.replicas=2",
        "method.inner_steps=5",
        "method.outer.lr=2",
        "method.outer={name: diloco}",
        "method.boundary={codec: shared}",
        "train.model.layers=5",
        "train.inner.lr=1e-3",
        "train.jitter=1e-5",
        "train.eval_every=3",
        "train.eval_sequences=15",
        "train.on_return.adam=keep",
        "train.data.vocab=301",
    ],
)
def test_what_training_depends_on_counts(small: Small, change: str) -> None:
    assert identity(small("none", change)) != identity(small("none"))


@pytest.mark.parametrize(
    "change",
    [
        "name=other",
        "pools.default.usd_per_h=9",
        "network.stages.latency_ms=9",
        "work.model=512m",
        "expect={usd: '< 5'}",
        "outages={kind: per_global_step, probability: 0.5}",
        "train.inner.weight_decay=0.1",
        "train.on_return={adam: zero}",
        "method.outer={name: sparseloco, density: 0.03125, lr: 0.7}",
    ],
)
def test_clock_money_and_defaults_said_aloud_do_not(small: Small, change: str) -> None:
    """Outages count by their Directives, apart."""
    assert identity(small("none", change)) == identity(small("none"))


@pytest.mark.parametrize("path", ["none", "loop", "a" * 5000, "loop/x", "text/a.txt/x"])
def test_a_text_that_cannot_be_read_is_left_to_the_trainer_to_tell(
    small: Small, tmp_path: Path, path: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    loaded = small("none", f"train.data.path={path}")
    assert identity(loaded)["text"] != identity(small("none"))["text"]
    data = prepared(loaded.scenario, loaded.root, with_training=True).train
    assert data is not None
    with pytest.raises(CorpusError, match=r"cannot read|no file or folder"):
        documents(data.data, Path())


def test_file_names_of_a_corpus_may_be_any_bytes(small: Small, tmp_path: Path) -> None:
    before = identity(small("none"))
    Path(os.fsdecode(bytes(tmp_path / "text") + b"/\xff.txt")).write_text("more")
    assert identity(small("none")) != before


def test_defaults_are_left_out_so_they_may_not_change_unseen(
    golden: Callable[[str, Any], None],
) -> None:
    """A changed default makes another training under the same key: raise TRAINED_FORMAT and rewrite
    the golden file. A key that is new needs the golden file only."""
    kinds = (Model, Method, Train, DiLoCo, Average)
    kinds += (TextData, JsonlData, ParquetData, WikiData, BinData)
    defaults = {kind.__name__: default_fields(kind) for kind in kinds}
    golden("training_defaults", {"format": TRAINED_FORMAT, **defaults})


def default_fields(kind: type[BaseModel]) -> dict[str, Any]:
    found = {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }
    return {key: v.model_dump() if isinstance(v, BaseModel) else v for key, v in found.items()}
