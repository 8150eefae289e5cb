"""What a run ran on: versions, machine, text. For env.json."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

from scenarios.catalogue.prices import stale
from scenarios.schema import Scenario

if TYPE_CHECKING:
    from trainer.loop import Trainer

PACKAGES = ("stageout", "simpy", "numpy", "torch", "tokenizers", "safetensors", "pyarrow")


def environment(scenario: Scenario, today: date) -> dict[str, Any]:
    """Date, versions and machine."""
    return {
        "date": today.isoformat(),
        "stale_prices": stale(scenario.pools, scenario.catalogue, today),
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def trained_on(trainer: Trainer) -> dict[str, Any]:
    """Device, threads and corpus of a training."""
    import torch

    from trainer.ngrams import ngram_nats

    return {
        "device": str(trainer.worker.device),
        "threads": torch.get_num_threads(),
        "corpus": trainer.corpus.facts(),
        "text": ngram_nats(trainer.corpus.tokens),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
