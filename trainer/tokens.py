"""Text to tokens: a byte-level BPE trained on the text itself, kept in a cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

FORMAT = "2"
"""Part of the cache key: raise it when the same text would give other tokens."""
END_OF_TEXT = "<|endoftext|>"
"""Token 0, after each document; it stands for no byte."""
PIECE_CHARS = 1 << 20
"""Text is learned and encoded in pieces of about so many characters: whole it takes gigabytes."""
LONGEST_RUN = 20_000
"""Characters without a space, or spaces without a character, are cut after so many: learning takes
the square of their number: of a megabyte of DNA minutes, of ten half a day."""
LONG_RUN = re.compile(rf"(?<!\S)\S{{{LONGEST_RUN + 1},}}|(?<!\s)\s{{{LONGEST_RUN + 1},}}")
WORD_END = re.compile(r"\S(?=[ \t\n])")
"""No token goes over it: what is cut there has the tokens of the whole."""

Arrays = dict[str, NDArray[Any]]
Ids = NDArray[np.uint16] | NDArray[np.uint32]
"""Token ids: two bytes each, four where a vocabulary is larger."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text as tokens.

    train, held_out: uint16 or uint32[token]. token_bytes: [entry], UTF-8 bytes each entry stands
    for, of token files on average. tokenizer: the tokenizer in its own JSON; of token files "".
    """

    train: Ids
    held_out: Ids
    token_bytes: NDArray[np.int64] | NDArray[np.float64]
    tokenizer: str


def tokenize(train: Sequence[str], held_out: Sequence[str], vocab: int) -> Tokens:
    """Both parts in the tokens of a BPE of at most `vocab` entries learned on the first.

    The result comes from the cache if it is there. A cache that cannot be read or written costs
    time, never the run.
    """
    path = cache_folder() / f"tokens-{_key(train, held_out, vocab)}.safetensors"
    tokens = _load(path)
    if tokens is None:
        tokens = _build(train, held_out, vocab)
        _store(path, tokens)
    return tokens


def cache_folder() -> Path:
    """$STAGEOUT_CACHE, else $XDG_CACHE_HOME/stageout, else ~/.cache/stageout."""
    if own := os.environ.get("STAGEOUT_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "stageout"
    return Path("~/.cache/stageout").expanduser()


def text_sha256(parts: Iterable[str]) -> str:
    """Digest of documents in order; where one ends is part of it."""
    digest = hashlib.sha256()
    for text in parts:
        digest.update(text.encode())
        digest.update(b"\xff")  # occurs in no UTF-8 text
    return digest.hexdigest()


def _key(train: Sequence[str], held_out: Sequence[str], vocab: int) -> str:
    what = (FORMAT, text_sha256(train), text_sha256(held_out), vocab, tokenizers.__version__)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:24]


def _build(train: Sequence[str], held_out: Sequence[str], vocab: int) -> Tokens:
    tokenizer = _learn(train, vocab)
    entries = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return Tokens(
        train=_encode(tokenizer, train),
        held_out=_encode(tokenizer, held_out),
        # a byte-level entry is spelled with one character for each byte
        token_bytes=np.array([0 if e == END_OF_TEXT else len(e) for e, _ in entries], np.int64),
        tokenizer=tokenizer.to_str(),
    )


def _learn(texts: Sequence[str], vocab: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.encode_special_tokens = True  # a text that spells END_OF_TEXT does not end
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END_OF_TEXT],
        # it comes in another order in every process, and older versions number it as it comes
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((p for text in texts for p in _pieces(text, _word_end)), trainer)
    return tokenizer


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> NDArray[np.uint16]:
    end = tokenizer.token_to_id(END_OF_TEXT)
    ids: list[NDArray[np.uint16]] = []
    for text in texts:
        ids.extend(
            np.array(tokenizer.encode(piece, add_special_tokens=False).ids, np.uint16)
            for piece in _pieces(text, _line_end)
        )
        ids.append(np.array([end], np.uint16))
    return np.concatenate(ids)


def _pieces(text: str, cut: Callable[[str, int], int]) -> Iterator[str]:
    """A text in pieces of about PIECE_CHARS. cut: where to end one, from a place on."""
    for part in _without_long_runs(text):
        start = 0
        while start < len(part):
            stop = cut(part, start + PIECE_CHARS)
            yield part[start:stop]
            start = stop


def _word_end(text: str, least: int) -> int:
    """Behind the first word that ends there or later."""
    found = WORD_END.search(text, least)
    return found.end() if found else len(text)


def _line_end(text: str, least: int) -> int:
    """Behind the first line that ends there; where lines are as long as a piece, behind a word."""
    end = text.find("\n", least, least + PIECE_CHARS)
    return end + 1 if end >= 0 else _word_end(text, least)


def _without_long_runs(text: str) -> Iterator[str]:
    start = 0
    for run in LONG_RUN.finditer(text):
        for stop in range(run.start() + LONGEST_RUN, run.end(), LONGEST_RUN):
            yield text[start:stop]
            start = stop
    yield text[start:]


def _store(path: Path, tokens: Tokens) -> None:
    """Write aside and rename, so that nobody reads half a file."""
    arrays: Arrays = {
        "train": tokens.train,
        "held_out": tokens.held_out,
        "token_bytes": tokens.token_bytes,
        "tokenizer": np.frombuffer(tokens.tokenizer.encode(), np.uint8),
    }
    content = save(arrays, metadata={"sha256": _digest(arrays)})
    aside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            aside = Path(file.name)
            file.write(content)
        aside.replace(path)
    except OSError as error:
        log.warning("tokens are not cached (%s)", error)
        if aside is not None:
            aside.unlink(missing_ok=True)


def _load(path: Path) -> Tokens | None:
    """The cached tokens, or None where they are not there or not whole."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            expected = (file.metadata() or {}).get("sha256")
        if _digest(arrays) != expected:
            raise ValueError("checksum does not match")
        return Tokens(
            train=arrays["train"],
            held_out=arrays["held_out"],
            token_bytes=arrays["token_bytes"],
            tokenizer=arrays["tokenizer"].tobytes().decode(),
        )
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        log.warning("cached tokens %s are unusable (%s): building them again", path, error)
        return None


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
