"""What is learned and what is held out, and the batches: each a pure function of its number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainer.config import Data, TextData
from trainer.corpora import CorpusError, documents
from trainer.randomness import Purpose, generator
from trainer.tokens import Tokens, text_sha256, tokenize

HELD_OUT_ONE_IN = 20
"""Every 20th document is held out; of fewer documents, the last 1/20 of each."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """A tokenised text.

    name: where it is from. sha256: of the whole text; the standard library's differs between
    Python versions.
    """

    name: str
    sha256: str
    tokens: Tokens

    def facts(self) -> dict[str, str | int | float]:
        """What a run records of its text, ready for JSON."""
        held_out = self.tokens.held_out
        return {
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
        starts = stream.integers(0, len(self.tokens.train) - seq, size=sequences)
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

    def bytes_of(self, tokens: NDArray[np.integer]) -> int:
        """UTF-8 bytes that tokens stand for."""
        return int(self.tokens.token_bytes[tokens].sum())


def load_corpus(data: Data, root: Path, seq: int) -> Corpus:
    """The text of a source, tokenised. root: where relative paths start.

    Raises CorpusError where there is no text, or less than one sequence to train or to hold out.
    """
    texts = documents(data, root)
    train, held_out = split(texts)
    name = str(root / data.path) if isinstance(data, TextData) else data.source
    tokens = tokenize(train, held_out, data.vocab)
    for part, found in (("training", tokens.train), ("held-out", tokens.held_out)):
        if len(found) < seq + 1:
            raise CorpusError(
                f"{name} is too short: its {part} part has {len(found)} tokens and one sequence "
                f"takes {seq + 1}; give more text or a shorter `seq`"
            )
    return Corpus(name, text_sha256(texts), tokens)


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


def _windows(tokens: NDArray[np.uint16], starts: NDArray[np.int64], seq: int) -> NDArray[np.int64]:
    """Token ids from each start on: int64[start, seq + 1]. Embeddings refuse uint16."""
    windows: NDArray[np.uint16] = tokens[starts[:, None] + np.arange(seq + 1)]
    return windows.astype(np.int64)
