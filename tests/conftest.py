"""Golden files with one switch to rewrite them, and a cache that no test shares with a user."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/ instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """`golden(name, data)`: data equals tests/golden/<name>.json, as JSON text."""

    def compare(name: str, data: Any) -> None:
        file = GOLDEN / f"{name}.json"
        text = json.dumps(data, indent=1, allow_nan=False) + "\n"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"no {file.name}: write it with pytest --update-golden, and read it"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(autouse=True)
def _whole_floats() -> Iterator[None]:
    """Training flushes denormal numbers in its process; other tests want them back."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """STAGEOUT_CACHE in a folder of this session."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAGEOUT_CACHE", str(folder))
        yield folder
