"""Tokens out of `.bin` files: nanoGPT's bare uint16, llm.c's with a header."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from trainer.config import BinData
from trainer.corpora import HELD_OUT_ONE_IN, files
from trainer.corpus_error import CorpusError, read_bytes
from trainer.tokens import Ids, Tokens

START = 4 * 256
"""Bytes before the tokens: int32 magic, version, count, then zeros."""
KINDS: dict[int, tuple[str, int, Any]] = {
    20240520: ("llm.c", 1, np.uint16),
    20240801: ("llm.c llama-3", 7, np.uint32),
}
"""By magic: name, version, type of a token. The files are little-endian."""
LIKE_A_MAGIC = range(20230000, 20300000)
"""A date as the first number, and zeros where a header has them, are one of a kind we do not know.
The date alone may be two ids of GPT-2, such as 7 and 309."""


def token_files(data: BinData, root: Path) -> Tokens:
    """Training and held-out tokens of a source. Raises CorpusError."""
    train = _read(data.path, data.vocab, root)
    if data.held_out is not None:
        held_out = _read(data.held_out, data.vocab, root)
    else:
        train, held_out = _split(train, data.end_of_text)
    return Tokens(train, held_out, np.full(data.vocab, data.bytes_per_token), tokenizer="")


def _read(path: str, vocab: int, root: Path) -> Ids:
    found = [_one(file) for file in files(root / path, ".bin")]
    tokens: Ids = found[0] if len(found) == 1 else _joined(found)
    largest = int(tokens.max(initial=0))
    if largest >= vocab:
        raise CorpusError(
            f"{root / path} holds token {largest}, beyond train.data.vocab {vocab}: set it to the "
            "entries of the tokenizer that made the file"
        )
    return tokens


def _joined(found: list[Ids]) -> Ids:
    """The tokens of several files, four bytes each if one of them has those."""
    if any(tokens.dtype == np.uint32 for tokens in found):
        return np.concatenate([tokens.astype(np.uint32, copy=False) for tokens in found])
    return np.concatenate([tokens.astype(np.uint16, copy=False) for tokens in found])


def _one(path: Path) -> Ids:
    """The tokens of one file, its kind told by the magic."""
    content = read_bytes(path, is_text=False)
    if not content:
        raise CorpusError(f"{path} is empty: make it again")
    magic = int.from_bytes(content[:4], "little")
    if magic in KINDS:
        return _with_header(path, content, magic)
    if magic in LIKE_A_MAGIC and len(content) >= START and not any(content[12:START]):
        known = ", ".join(f"{number} ({name})" for number, (name, _, _) in KINDS.items())
        raise CorpusError(
            f"{path} begins with magic {magic}; known are {known}, or no header at all (nanoGPT)"
        )
    if len(content) % 2:
        raise CorpusError(
            f"{path} has {len(content)} bytes, an odd number, so it is not bare uint16 (nanoGPT), "
            "and it begins with no magic of llm.c: it may be cut short; make or fetch it again"
        )
    return np.frombuffer(content, dtype="<u2").astype(np.uint16, copy=False)


def _with_header(path: Path, content: bytes, magic: int) -> Ids:
    name, version, kind = KINDS[magic]
    if len(content) < START:
        raise CorpusError(f"{path} is cut short inside its header: fetch it again")
    header = np.frombuffer(content[:START], dtype="<i4")
    if header[1] != version:
        raise CorpusError(f"{path} is {name} of version {header[1]}; only {version} is known")
    width = np.dtype(kind).itemsize
    promised, there = int(header[2]), (len(content) - START) / width
    if promised != there:
        raise CorpusError(
            f"{path} promises {promised} tokens and holds {there:g}: it was cut short or is "
            "damaged; fetch it again"
        )
    if not promised:
        raise CorpusError(f"{path} holds no token: make it again")
    little = np.dtype(kind).newbyteorder("<")
    return np.frombuffer(content, dtype=little, offset=START).astype(kind, copy=False)


def _split(tokens: Ids, end_of_text: int | None) -> tuple[Ids, Ids]:
    """Every 20th document is held out; of fewer, or where no id tells them apart, the end.

    Documents begin or end with the id: it opens a document in llm.c and closes one in nanoGPT,
    and cutting behind it serves for both.
    """
    if end_of_text is not None:
        ends = np.flatnonzero(tokens == end_of_text) + 1
        if len(ends) >= HELD_OUT_ONE_IN:
            is_held_out = np.zeros(len(tokens), dtype=np.bool_)
            last = HELD_OUT_ONE_IN - 1
            starts, stops = ends[last - 1 :: HELD_OUT_ONE_IN], ends[last::HELD_OUT_ONE_IN]
            for start, stop in zip_longest(starts, stops):  # the last document may have no id
                is_held_out[start:stop] = True
            return tokens[~is_held_out], tokens[is_held_out]
    cut = len(tokens) - len(tokens) // HELD_OUT_ONE_IN
    return tokens[:cut], tokens[cut:]
