"""Losses of counting, against the same formulas in loops."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from trainer.ngrams import ngram_nats
from trainer.tokens import Tokens

SIZE = 7


def tokens(train: list[int], held_out: list[int]) -> Tokens:
    return Tokens(
        np.array(train, dtype=np.uint16),
        np.array(held_out, dtype=np.uint16),
        np.ones(SIZE, dtype=np.int64),
        "",
    )


def naive(train: list[int], held_out: list[int]) -> tuple[float, float]:
    counts, pairs = Counter(train), Counter(itertools.pairwise(train))

    def unigram(b: int) -> float:
        return (counts[b] + 1) / (len(train) + SIZE)

    def bigram(a: int, b: int) -> float:
        after = {y: n for (x, y), n in pairs.items() if x == a}
        if not after:
            return unigram(b)
        return (pairs[a, b] + len(after) * unigram(b)) / (sum(after.values()) + len(after))

    asked = list(itertools.pairwise(held_out))
    return (
        -sum(math.log(unigram(b)) for _, b in asked) / len(asked),
        -sum(math.log(bigram(a, b)) for a, b in asked) / len(asked),
    )


def test_both_models_are_those_of_their_formulas() -> None:
    drawn = np.random.default_rng(3).integers(0, 5, size=(2, 60)).tolist()
    held_out = [*drawn[1], 6, 2]  # 6 was never seen
    told = ngram_nats(tokens(drawn[0], held_out))
    assert (told["unigram_nats"], told["bigram_nats"]) == pytest.approx(naive(drawn[0], held_out))


def test_a_text_that_repeats_itself_has_no_surprise_left_in_pairs() -> None:
    told = ngram_nats(tokens([0, 1, 2, 3] * 500, [0, 1, 2, 3] * 5))
    assert told["unigram_nats"] == pytest.approx(math.log(4), rel=1e-2)
    assert told["bigram_nats"] < 0.01
