"""What counting alone makes of a text: the losses that a trained model should beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainer.tokens import Tokens

MOST_COUNTED = 5_000_000
MOST_PREDICTED = 500_000
"""Tokens that are counted and predicted at most, from the start of each part."""


def ngram_nats(tokens: Tokens) -> dict[str, float]:
    """Nats a held-out token under models counted on the training tokens.

    unigram_nats: frequencies, one added to each count. bigram_nats: frequencies after the token
    before, mixed with the unigram's by the number of different followers (Witten and Bell, 1991):
    p(b | a) = (c(ab) + n(a) p(b)) / (c(a) + n(a)).
    """
    train = np.asarray(tokens.train[:MOST_COUNTED], dtype=np.int64)
    held_out = np.asarray(tokens.held_out[:MOST_PREDICTED], dtype=np.int64)
    size = len(tokens.token_bytes)
    counts = np.bincount(train, minlength=size) + 1.0
    unigram = counts / counts.sum()
    before, after = held_out[:-1], held_out[1:]
    pairs, seen = np.unique(_pairs(train, size), return_counts=True)
    followers = np.bincount(pairs // size, minlength=size)
    total = np.bincount(train[:-1], minlength=size)
    wanted = _pairs(held_out, size)
    at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    of_pair = np.where(pairs[at] == wanted, seen[at], 0)
    never = total[before] == 0
    mixed = of_pair + followers[before] * unigram[after]
    bigram = np.where(
        never, unigram[after], mixed / np.where(never, 1, (total + followers)[before])
    )
    return {"unigram_nats": _nats(unigram[after]), "bigram_nats": _nats(bigram)}


def _pairs(ids: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """A number for each token and the one after it."""
    return ids[:-1] * size + ids[1:]


def _nats(probabilities: NDArray[np.float64]) -> float:
    return float(-np.log(probabilities).mean())
