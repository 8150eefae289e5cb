"""Token files of nanoGPT and llm.c: told apart, checked, split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.config import BinData
from trainer.corpora import CorpusError
from trainer.data import load_corpus

SEQ = 8


def header(magic: int, version: int, count: int) -> bytes:
    values = np.zeros(256, dtype="<i4")
    values[:3] = magic, version, count
    return values.tobytes()


GPT2 = np.arange(3000, dtype="<u2") % 500
LLAMA = GPT2.astype("<u4") + 100_000
KINDS = {
    "nanogpt": (GPT2.tobytes(), GPT2, 50_257),
    "llm.c": (header(20240520, 1, 3000) + GPT2.tobytes(), GPT2, 50_257),
    "llama-3": (header(20240801, 7, 3000) + LLAMA.tobytes(), LLAMA, 128_256),
}


def bin_data(path: str = "x.bin", vocab: int = 50_257, **more: Any) -> BinData:
    return BinData(source="bin", path=path, vocab=vocab, bytes_per_token=4.5, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_token_files_are_told_apart_by_their_magic(tmp_path: Path, kind: str) -> None:
    content, tokens, vocab = KINDS[kind]
    (tmp_path / "x.bin").write_bytes(content)
    corpus = load_corpus(bin_data(vocab=vocab), tmp_path, SEQ)
    assert np.array_equal(corpus.tokens.train, tokens[:2850])
    assert np.array_equal(corpus.tokens.held_out, tokens[2850:])
    assert corpus.bytes_of(corpus.held_out(2, SEQ)[:, 1:]) == 2 * SEQ * 4.5
    batch = corpus.batch(2, SEQ, seed=0, replica=0, global_step=0, inner_step=0)
    assert batch.dtype == np.int64
    assert corpus.facts()["held_out_bytes_per_token"] == 4.5


def test_two_ids_that_look_like_a_date_are_no_header(tmp_path: Path) -> None:
    """7 and 309 are 20250631 where they are read as one number."""
    tokens = np.concatenate([np.array([7, 309], dtype="<u2"), GPT2])
    (tmp_path / "x.bin").write_bytes(tokens.tobytes())
    assert np.array_equal(load_corpus(bin_data(), tmp_path, SEQ).tokens.train, tokens[:2852])


def test_an_end_of_text_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"end_of_text must be below vocab \(got 500 and 500\)"):
        bin_data(vocab=500, end_of_text=500)


def test_folders_of_token_files_and_a_held_out_one(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name, part in (("b.bin", GPT2[1000:]), ("a.bin", GPT2[:1000])):
        (tmp_path / "train" / name).write_bytes(header(20240520, 1, len(part)) + part.tobytes())
    (tmp_path / "val.bin").write_bytes(GPT2[:200].tobytes())
    corpus = load_corpus(bin_data("train", held_out="val.bin"), tmp_path, SEQ)
    assert np.array_equal(corpus.tokens.train, GPT2)
    assert np.array_equal(corpus.tokens.held_out, GPT2[:200])


@pytest.mark.parametrize("opens", [True, False])
def test_whole_documents_are_held_out_where_an_id_divides_them(tmp_path: Path, opens: bool) -> None:
    """llm.c opens a document with the id, nanoGPT closes it; 45 documents of ten tokens."""
    parts = []
    for i in range(45):
        text = [100 + i] * 9
        parts.append([7, *text] if opens else [*text, 7])
    (tmp_path / "x.bin").write_bytes(np.array(parts, dtype="<u2").tobytes())
    corpus = load_corpus(bin_data(end_of_text=7), tmp_path, SEQ)
    held_out = set(corpus.tokens.held_out.tolist()) - {7}
    assert held_out == ({118, 138} if opens else {119, 139})
    assert held_out.isdisjoint(corpus.tokens.train.tolist())
    assert len(corpus.tokens.train) + len(corpus.tokens.held_out) == 450


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: make it again"),
        (header(20240520, 1, 3000) + GPT2.tobytes()[:-2], "promises 3000 tokens and holds 2999"),
        (header(20240520, 1, 3000) + GPT2.tobytes()[:-1], "promises 3000 tokens and holds 2999.5"),
        (header(20240801, 7, 3000) + GPT2.tobytes(), "promises 3000 tokens and holds 1500"),
        (header(20240520, 1, 9)[:1000], "cut short inside its header"),
        (header(20240520, 2, 3000) + GPT2.tobytes(), "llm.c of version 2; only 1 is known"),
        (header(20240520, 1, 0), "holds no token"),
        (header(20240521, 1, 3000) + GPT2.tobytes(), "begins with magic 20240521; known are"),
        (GPT2.tobytes()[:-1], "an odd number, .*cut short; make or fetch it again"),
        (np.full(99, 60_000, dtype="<u2").tobytes(), "holds token 60000, beyond .*vocab 50257"),
        (GPT2.tobytes()[:20], "too short: its held-out part"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_token_files_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(bin_data(), tmp_path, SEQ)
