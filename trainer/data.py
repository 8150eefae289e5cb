"""What is learned and what is held out, and the batches: each a pure function of its number."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.config import BinData, Data
from trainer.corpora import HELD_OUT_ONE_IN, Documents, documents, name_of
from trainer.corpus_error import CorpusError, in_short
from trainer.randomness import Purpose, generator
from trainer.token_files import token_files
from trainer.tokens import Ids, Tokens, text_sha256, tokenize

END_OF_TEXT_ID = 0
"""Of the entry that ends a document."""


Labels = tuple[str, ...]


class Shard(NamedTuple):
    """What a replica trains on: the documents of some labels, next to each other."""

    labels: Labels
    span: tuple[int, int]
    """First training token, and the one behind the last."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """A tokenised text.

    name: where it is from. sha256: of the whole text; the standard library's differs between
    Python versions. shards: what each replica trains on; empty: all on everything.
    attribution: what the text's licence asks to print.
    """

    name: str
    sha256: str
    tokens: Tokens
    shards: tuple[Shard, ...] = ()
    attribution: str | None = None

    def facts(self) -> dict[str, Any]:
        """What a run records of its text, ready for JSON."""
        held_out = self.tokens.held_out
        told: dict[str, Any] = {
            "attribution": self.attribution,
            "shards": [list(shard.labels) for shard in self.shards],
        }
        return {key: value for key, value in told.items() if value} | {
            "name": self.name,
            "sha256": self.sha256,
            "train_tokens": len(self.tokens.train),
            "held_out_tokens": len(held_out),
            "held_out_bytes_per_token": self.bytes_of(held_out) / len(held_out),
            "tokenizer_sha256": hashlib.sha256(self.tokens.tokenizer.encode()).hexdigest(),
            "tokenizer_entries": len(self.tokens.token_bytes),
        }

    def batch(
        self,
        sequences: int,
        seq: int,
        *,
        seed: int,
        replica: int,
        global_step: int,
        inner_step: int,
    ) -> NDArray[np.int64]:
        """Training sequences, int64[sequences, seq + 1], at random places.

        A pure function of its arguments: who was out before changes nothing, and the data of an
        idle replica is skipped, not delayed.
        """
        stream = generator(seed, Purpose.BATCH, replica, global_step, inner_step)
        start, stop = 0, len(self.tokens.train)
        if self.shards:
            start, stop = self.shards[replica % len(self.shards)].span
        starts = stream.integers(start, stop - seq, size=sequences)
        return _windows(self.tokens.train, starts, seq)

    def held_out(self, sequences: int, seq: int) -> NDArray[np.int64]:
        """Evenly spaced held-out sequences, int64[at most `sequences`, seq + 1].

        They do not overlap but for the token that one ends and the next begins with, so a short
        text has fewer.
        """
        tokens = self.tokens.held_out
        count = min(sequences, (len(tokens) - 1) // seq)
        starts = np.linspace(0, len(tokens) - 1 - seq, count).astype(np.int64)
        return _windows(tokens, starts, seq)

    def bytes_predicted(self, sequences: NDArray[np.int64]) -> int:
        """Of the text behind each first token of held-out sequences, int64[sequence, seq + 1].

        Raises CorpusError where there is none, by which no loss can be divided.
        """
        count = self.bytes_of(sequences[:, 1:])
        if not count:  # the last 1/20 of documents shorter than 20 characters is nothing
            raise CorpusError(
                f"{self.name} is too short: the {len(sequences)} held-out sequences are ends of "
                "documents without text; give longer documents, or 20 at least"
            )
        return count

    def bytes_of(self, tokens: NDArray[np.integer]) -> int:
        """UTF-8 bytes that tokens stand for."""
        return round(float(self.tokens.token_bytes[tokens].sum()))


def load_corpus(data: Data, root: Path, seq: int, replicas: int = 1) -> Corpus:
    """The text of a source, tokenised. root: where relative paths start.

    replicas: how many shards to make where the data are sharded.

    Raises CorpusError where there is no text, or less than one sequence to train or to hold out.
    """
    name = name_of(data, root)
    if isinstance(data, BinData):
        tokens = token_files(data, root)
        digest = hashlib.sha256(tokens.train.data)
        digest.update(tokens.held_out.data)
        corpus = Corpus(name, digest.hexdigest(), tokens)
    else:
        corpus = _of_text(name, documents(data, root), data.vocab, replicas)
    _check_lengths(corpus, seq)
    return corpus


def _of_text(name: str, found: Documents, vocab: int, replicas: int) -> Corpus:
    if found.attribution is not None:
        print(found.attribution, file=sys.stderr)
    digest = text_sha256(found.texts)
    train, held_out = split(found.texts)
    if found.labels is None:
        tokens = tokenize(train, held_out, vocab)
        return Corpus(name, digest, tokens, attribution=found.attribution)
    labels = found.labels
    if len(train) < len(labels):  # whole documents are held out
        labels = split(labels)[0]
    dealt = deal(train, labels, replicas)
    grouped = [text for of_shard in dealt.values() for text in of_shard]
    tokens = tokenize(grouped, held_out, vocab)
    ends = np.flatnonzero(tokens.train == END_OF_TEXT_ID) + 1  # one behind each document
    stops = ends[np.cumsum([len(of_shard) for of_shard in dealt.values()]) - 1].tolist()
    shards = tuple(
        Shard(of, (start, stop)) for of, start, stop in zip(dealt, [0, *stops], stops, strict=False)
    )
    return Corpus(name, digest, tokens, shards, found.attribution)


def deal(texts: Sequence[str], labels: Sequence[str], replicas: int) -> dict[Labels, list[str]]:
    """Texts by shard, one a replica: every label's texts go to one of them.

    Labels are dealt longest first, each to the replica that has least text so far, so that shards
    are of like length. With fewer labels than replicas there is a shard a label, and replica r
    reads shard r modulo their number.
    """
    of_label: dict[str, list[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        of_label.setdefault(label, []).append(text)
    length = {label: sum(map(len, mine)) for label, mine in of_label.items()}
    hands: list[list[str]] = [[] for _ in range(min(replicas, len(of_label)))]
    for label in sorted(length, key=lambda label: (-length[label], label)):
        min(hands, key=lambda hand: sum(length[mine] for mine in hand)).append(label)
    return {tuple(hand): [text for label in hand for text in of_label[label]] for hand in hands}


def _check_lengths(corpus: Corpus, seq: int) -> None:
    """Raise CorpusError where a part has less than one sequence."""
    parts = [
        ("its training part", len(corpus.tokens.train), "give more text or a shorter `seq`"),
        ("its held-out part", len(corpus.tokens.held_out), "give more text or a shorter `seq`"),
    ]
    for shard in corpus.shards:
        what, length = f"its shard ({in_short(shard.labels)})", shard.span[1] - shard.span[0]
        parts.append((what, length, "leave out `shard_by`, use fewer replicas, or give more text"))
    for what, length, cure in parts:
        if length < seq + 1:
            raise CorpusError(
                f"{corpus.name} is too short: {what} has {length} tokens and one sequence takes "
                f"{seq + 1}; {cure}"
            )


def split(texts: list[str]) -> tuple[list[str], list[str]]:
    """Training and held-out documents: every 20th is held out.

    Of fewer than 20 documents the last 1/20 of each is, counted in characters.
    """
    if len(texts) >= HELD_OUT_ONE_IN:
        last = HELD_OUT_ONE_IN - 1
        train = [text for i, text in enumerate(texts) if i % HELD_OUT_ONE_IN != last]
        return train, texts[last::HELD_OUT_ONE_IN]
    cuts = [len(text) - len(text) // HELD_OUT_ONE_IN for text in texts]
    return (
        [text[:cut] for text, cut in zip(texts, cuts, strict=True)],
        [text[cut:] for text, cut in zip(texts, cuts, strict=True)],
    )


def _windows(tokens: Ids, starts: NDArray[np.int64], seq: int) -> NDArray[np.int64]:
    """Token ids from each start on: int64[start, seq + 1]. Embeddings refuse uint16."""
    windows: Ids = tokens[starts[:, None] + np.arange(seq + 1)]
    return windows.astype(np.int64)
