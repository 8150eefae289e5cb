"""What the engine's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sim.news


@pytest.fixture(scope="module")
def impatience() -> Iterator[None]:
    """Hopeless pools are given up soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.news, "MOST_LOSSES", 100)
        patch.setattr(sim.news, "MOST_LOSSES_OF_A_WORKER", 5)
        yield
