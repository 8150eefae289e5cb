"""Text, tokens, cache and batches."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import tokens as tokens_module
from trainer.config import StdlibData, TextData
from trainer.corpora import CorpusError, documents
from trainer.data import Corpus, load_corpus, split
from trainer.tokens import END_OF_TEXT, cache_folder, text_sha256, tokenize

SEQ = 8
TEXT = TextData(source="text", path="words.txt", vocab=300)


@pytest.fixture
def corpus(text_root: Path) -> Corpus:
    return load_corpus(TEXT, text_root, SEQ)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAGEOUT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def batch(corpus: Corpus, seed: int = 0, replica: int = 0, step: int = 0, inner: int = 0) -> bytes:
    made = corpus.batch(2, SEQ, seed=seed, replica=replica, global_step=step, inner_step=inner)
    assert made.shape == (2, SEQ + 1)
    assert made.dtype == np.int64
    return made.tobytes()


def test_a_batch_is_a_pure_function_of_its_four_numbers(corpus: Corpus) -> None:
    numbers = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (3, 2, 1, 9)]
    forth = [batch(corpus, *each) for each in numbers]
    back = [batch(corpus, *each) for each in reversed(numbers)]
    assert forth == back[::-1]
    assert len(set(forth)) == len(numbers)


def test_batches_are_pieces_of_the_training_text_and_reach_its_ends(corpus: Corpus) -> None:
    text = corpus.tokens.train[: SEQ + 3]  # three places only
    short = Corpus("short", "", replace(corpus.tokens, train=text))
    places = [text[i : i + SEQ + 1].tolist() for i in range(3)]
    found = short.batch(60, SEQ, seed=0, replica=0, global_step=0, inner_step=0).tolist()
    assert all(piece in places for piece in found)
    assert all(place in found for place in places)


def test_tokens_spell_the_text_byte_for_byte(text_root: Path, corpus: Corpus) -> None:
    texts = documents(TEXT, text_root).texts
    train, held_out = split(texts)
    assert corpus.bytes_of(corpus.tokens.train) == len("".join(train).encode())
    assert corpus.bytes_of(corpus.tokens.held_out) == len("".join(held_out).encode())
    ratio = len("".join(held_out).encode()) / len(corpus.tokens.held_out)
    assert corpus.facts()["held_out_bytes_per_token"] == pytest.approx(ratio)


def test_bytes_are_counted_for_any_script_and_a_spelled_end_of_text() -> None:
    text = f"naïve 火 \U0001f600 {END_OF_TEXT} x\n"
    made = tokenize([text], [text * 2], 257)
    assert made.train.dtype == np.uint16
    assert made.token_bytes[made.train].sum() == len(text.encode())
    assert made.token_bytes[made.held_out].sum() == 2 * len(text.encode())
    assert (made.train == 0).nonzero()[0].tolist() == [len(made.train) - 1]


def test_a_text_too_small_for_its_vocabulary_has_fewer_entries() -> None:
    made = tokenize(["ab ab\n"], ["ab\n"], 60_000)
    assert 257 <= len(made.token_bytes) < 300
    assert made.train.max() < len(made.token_bytes)


words = st.lists(
    st.text(st.sampled_from("ab1-\u00e9\u706b' \n\t\r\u00a0\x1c"), max_size=30), max_size=9
)


@settings(deadline=None, max_examples=40)
@given(words, st.integers(1, 12))
def test_pieces_that_end_behind_words_have_the_tokens_of_the_whole(
    texts: list[str], piece_chars: int
) -> None:
    text = " ".join(texts)
    whole = tokens_module._learn([text], 270)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens_module, "PIECE_CHARS", piece_chars)
        pieces = list(tokens_module._pieces(text, tokens_module._word_end))
        assert tokens_module._learn([text], 270).to_str() == whole.to_str()
    assert "".join(pieces) == text
    ids = [i for piece in pieces for i in whole.encode(piece).ids]
    assert ids == whole.encode(text).ids


def test_long_documents_are_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind line ends; where a line is as long as a piece, behind a word."""
    text = "one two three\n" * 40 + "x " * 100
    whole = tokenize([text], ["a\n"], 280)
    monkeypatch.setattr(tokens_module, "PIECE_CHARS", 50)
    monkeypatch.setattr(tokens_module, "FORMAT", "pieces")  # another cache entry
    pieces = list(tokens_module._pieces(text, tokens_module._line_end))
    assert "".join(pieces) == text
    assert [len(piece) for piece in pieces] == [56] * 10 + [51, 52, 52, 45]
    assert np.array_equal(tokenize([text], ["a\n"], 280).train, whole.train)


@pytest.mark.parametrize("letter", ["A", " ", "\0", "\n"])
def test_a_run_without_a_word_end_is_cut_anywhere(letter: str) -> None:
    """Learning takes the square of its length: this was minutes."""
    text = "a b\n" + letter * 500_000 + "c d\n"
    made = tokenize([text], ["a\n"], 280)
    assert made.token_bytes[made.train].sum() == len(text)
    pieces = list(tokens_module._without_long_runs(text))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= tokens_module.LONGEST_RUN + 10


def test_the_digest_of_a_text_knows_where_documents_end() -> None:
    assert text_sha256(["ab", "c"]) != text_sha256(["a", "bc"])
    assert text_sha256(["ab", "c"]) == text_sha256(["ab", "c"])


def test_every_twentieth_document_is_held_out() -> None:
    texts = [str(i) for i in range(45)]
    train, held_out = split(texts)
    assert held_out == ["19", "39"]
    assert train == [text for text in texts if text not in held_out]


def test_of_few_documents_the_last_twentieth_of_each_is_held_out() -> None:
    train, held_out = split(["a" * 95 + "b" * 5, "c" * 39 + "d" * 2])
    assert train == ["a" * 95, "c" * 39]
    assert held_out == ["b" * 5, "d" * 2]


def test_held_out_sequences_are_evenly_spaced_and_do_not_overlap(corpus: Corpus) -> None:
    text = corpus.tokens.held_out
    few = corpus.held_out(4, SEQ)
    assert few.shape == (4, SEQ + 1)
    assert few[0].tolist() == text[: SEQ + 1].tolist()
    assert few[-1].tolist() == text[-SEQ - 1 :].tolist()
    numbered = replace(corpus.tokens, held_out=np.arange(3 * SEQ + 2, dtype=np.uint16))
    all_of_it = Corpus("numbers", "", numbered).held_out(1000, SEQ)
    assert len(all_of_it) == 3
    assert (np.diff(all_of_it[:, 0]) >= SEQ).all()


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, text in {"b/x.txt": "2", "a.txt": "1", "c.txt": "3", "d.md": "4"}.items():
        (tmp_path / name).write_text(text)
    assert documents(TextData(source="text", path="."), tmp_path).texts == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no file or folder .*words.txt: relative paths start at the scenario file"),
        (b"", "words.txt is empty: give a file"),
        (b" \n", "words.txt is empty: give a file"),
        (gzip.compress(b"abc", mtime=0), r"words.txt is compressed: unpack it"),
        (b"\xff\xfe", "words.txt is not UTF-8 .* save it as UTF-8"),
        (b"abc", "words.txt is too short: its training part has [0-9]+ tokens and one sequence"),
        (b"abc def\n" * 12, "its held-out part has .* give more text or a shorter `seq`"),
    ],
)
def test_text_that_cannot_be_used_is_an_error_with_a_cure(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(TEXT, tmp_path, SEQ)


def test_an_empty_folder_is_an_error_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no text in the \*.txt files below .*: add some"):
        documents(TextData(source="text", path="."), tmp_path)


def test_the_standard_library_comes_without_tests_and_packages() -> None:
    texts = documents(StdlibData(), Path("unused")).texts
    together = "\n".join(texts)
    assert len(texts) > 300
    assert len(together) > 5_000_000
    assert "class Random(_random.Random)" in together  # random.py
    assert "class TestCase" in together  # unittest itself stays
    assert "class RegressionTestResult" not in together  # test/libregrtest
    assert documents(StdlibData(), Path("elsewhere")).texts == texts


def entry(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_the_cache_is_used(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tokenize(["a b c\n"], ["a\n"], 260)
    assert entry(own_cache).name.startswith("tokens-")
    monkeypatch.setattr(tokens_module, "_build", None)  # would fail
    second = tokenize(["a b c\n"], ["a\n"], 260)
    assert np.array_equal(first.train, second.train)
    assert np.array_equal(first.token_bytes, second.token_bytes)
    assert first.tokenizer == second.tokenizer
    for other in (
        (["a b d\n"], ["a\n"], 260),
        (["a b c\n"], ["b\n"], 260),
        (["a b c\n"], ["a\n"], 261),
    ):
        with pytest.raises(TypeError):
            tokenize(*other)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "json"])
def test_a_damaged_cache_is_built_again(own_cache: Path, damage: str) -> None:
    good = tokenize(["a b c\n" * 50], ["a\n"], 260)
    path = entry(own_cache)
    content = bytearray(path.read_bytes())
    broken = {
        "cut": bytes(content[: len(content) // 2]),
        "flip": bytes(content[:-40]) + bytes([content[-40] ^ 1]) + bytes(content[-39:]),
        "empty": b"",
        "json": b"{}",
    }[damage]
    path.write_bytes(broken)
    again = tokenize(["a b c\n" * 50], ["a\n"], 260)
    assert np.array_equal(good.train, again.train)
    assert good.tokenizer == again.tokenizer
    assert entry(own_cache).read_bytes() == bytes(content)


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("STAGEOUT_CACHE", str(tmp_path / "file"))
    assert len(tokenize(["a b c\n"], ["a\n"], 260).train) > 0
    assert (tmp_path / "file").read_text() == "not a folder"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGEOUT_CACHE", "/one")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert cache_folder() == Path("/one")
    monkeypatch.delenv("STAGEOUT_CACHE")
    assert cache_folder() == Path("/two/stageout")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/stageout")


def test_the_tokenizer_is_the_same_in_every_process(tmp_path: Path) -> None:
    """The alphabet that tokenizers hands out has another order in every one."""
    code = (
        "from trainer.tokens import tokenize; import hashlib\n"
        "made = tokenize(['the stage is out\\n' * 9], ['the\\n'], 290)\n"
        "print(hashlib.sha256(made.tokenizer.encode() + made.train.tobytes()).hexdigest())"
    )
    prints = set()
    for i in range(3):
        where = os.environ | {"STAGEOUT_CACHE": str(tmp_path / str(i)), "PYTHONHASHSEED": str(i)}
        root = Path(__file__).parents[2]
        command = [sys.executable, "-c", code]
        prints.add(subprocess.check_output(command, cwd=root, env=where, text=True))
    assert len(prints) == 1
