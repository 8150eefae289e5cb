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


def environment(scenario: Scenario, trainer: Trainer | None, today: date) -> dict[str, Any]:
    """Date, versions and machine; with a trainer its device, threads and corpus as well."""
    found: dict[str, Any] = {
        "date": today.isoformat(),
        "stale_prices": stale(scenario.pools, scenario.catalogue, today),
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    if trainer is not None:
        import torch

        from trainer.ngrams import ngram_nats

        found |= {
            "device": str(trainer.worker.device),
            "threads": torch.get_num_threads(),
            "corpus": trainer.corpus.facts(),
            "text": ngram_nats(trainer.corpus.tokens),
        }
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
