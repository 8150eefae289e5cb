"""Chunked top-k and the quantiser against a second, naive implementation, and against theory."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.naive import naive_kept, naive_two_bit
from trainer.compress import Compressor, chunk_places, dequantise, largest, quantise
from trainer.sizes import chunks

Shape = tuple[int, ...]

matrices = st.tuples(st.integers(1, 150), st.integers(1, 150))
vectors = st.tuples(st.integers(1, 9000))
stages = st.lists(st.one_of(matrices, vectors), min_size=1, max_size=4)


def shapes_of(shapes: list[Shape]) -> dict[str, Shape]:
    return {str(i): shape for i, shape in enumerate(shapes)}


def total(shapes: list[Shape]) -> int:
    return sum(math.prod(shape) for shape in shapes)


@settings(deadline=None, max_examples=40)
@given(stages, st.sampled_from([0.001, 0.03125, 0.1, 0.5, 1.0]), st.integers(0, 2**32 - 1))
def test_top_k_keeps_what_the_naive_one_keeps_ties_included(
    shapes: list[Shape], density: float, seed: int
) -> None:
    vector = np.random.default_rng(seed).integers(-4, 5, total(shapes)).astype(np.float32)
    found = Compressor(shapes_of(shapes), density, bits=32).encode(torch.from_numpy(vector))
    expected = sorted(chain.from_iterable(naive_kept(vector, shapes, density)))
    assert sorted(found.index.tolist()) == expected
    assert np.array_equal(found.value.numpy(), vector[found.index.numpy()])


@settings(deadline=None, max_examples=40)
@given(stages, st.sampled_from([0.001, 0.03125, 0.3, 1.0]), st.integers(0, 2**32 - 1))
def test_two_bits_give_what_the_naive_one_gives(
    shapes: list[Shape], density: float, seed: int
) -> None:
    vector = np.random.default_rng(seed).standard_normal(total(shapes)).astype(np.float32)
    found = Compressor(shapes_of(shapes), density, bits=2).encode(torch.from_numpy(vector))
    dense = np.zeros(len(vector))
    dense[found.index.numpy()] = found.value.numpy()
    expected = np.zeros(len(vector))
    for kept in naive_kept(vector, shapes, density):
        expected[kept] = naive_two_bit(vector[kept].astype(np.float64))
    np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-6)


@given(st.one_of(matrices, vectors))
@settings(deadline=None)
def test_chunks_are_those_of_the_arithmetic_and_cover_each_place_once(shape: Shape) -> None:
    blocks = chunk_places(torch.arange(math.prod(shape)).view(shape))
    lengths: Counter[int] = Counter()
    for block in blocks:
        lengths[block.shape[1]] += block.shape[0]
    expected: Counter[int] = Counter()
    for length, count in chunks(shape):
        expected[length] += count
    assert lengths == expected
    places = torch.cat([block.flatten() for block in blocks]).sort().values
    assert torch.equal(places, torch.arange(math.prod(shape)))


def test_all_equal_magnitudes_keep_the_first_places() -> None:
    chunk = torch.tensor([[-1.0, 1.0, -1.0, 1.0, 0.0], [0.0, -0.0, 0.0, 0.0, -0.0]])
    assert largest(chunk.abs(), 3).sort(dim=1).values.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    "values",
    [[3.0], [2.0, 2.0, 2.0], [0.0, 0.0], [1e-30, -1e-30], [1e30, -1e30, 3e30], [1.0, 1.0000001]],
)
def test_degenerate_values_stay_finite_and_keep_their_mean(values: list[float]) -> None:
    value = torch.tensor(values)
    tensor = torch.zeros(len(values), dtype=torch.long)
    codes, mu, table = quantise(value, tensor, 1)
    read = dequantise(codes, mu, table, tensor)
    assert read.isfinite().all()
    assert codes.min() >= 0
    assert codes.max() <= 3
    assert read.double().mean().item() == pytest.approx(value.double().mean().item(), rel=1e-5)


def test_a_tensor_of_equal_values_is_read_as_it_was() -> None:
    value, tensor = torch.tensor([7.0, 7.0, -3.0]), torch.tensor([0, 0, 1])
    codes, mu, table = quantise(value, tensor, 2)
    assert codes.tolist() == [2, 2, 2]
    assert table.abs().max() == 0
    assert torch.equal(dequantise(codes, mu, table, tensor), value)


@given(st.integers(2, 400), st.integers(0, 2**32 - 1))
def test_the_quantiser_keeps_the_mean_of_every_tensor(count: int, seed: int) -> None:
    """Each code is read as the mean of its values, so the total is kept."""
    draw = np.random.default_rng(seed)
    value = torch.from_numpy(draw.standard_normal(count).astype(np.float32))
    tensor = torch.from_numpy(draw.integers(0, 3, count))
    read = dequantise(*quantise(value, tensor, 3), tensor)
    for each in range(3):
        mine = tensor == each
        if mine.any():
            assert read[mine].mean().item() == pytest.approx(value[mine].mean().item(), abs=1e-6)


def test_tensors_do_not_share_their_scale() -> None:
    small, large = torch.tensor([1.0, -1.0, 2.0]), torch.tensor([1e4, -3e4, 2e4])
    tensor = torch.tensor([0, 1, 0, 1, 0, 1])
    mixed = torch.stack([small, large], 1).flatten()
    read = dequantise(*quantise(mixed, tensor, 2), tensor)
    alone = torch.zeros(3, dtype=torch.long)
    assert torch.equal(read[::2], dequantise(*quantise(small, alone, 1), alone))


def test_on_gaussian_input_two_of_the_four_codes_occur() -> None:
    """What top-k leaves of a Gaussian is two far peaks: two bits degenerate to a sign."""
    vector = torch.randn(64 * 64 * 16, generator=torch.manual_seed(0))
    kept = vector.view(16, 4096).gather(1, largest(vector.abs().view(16, 4096), 128)).flatten()
    codes, _, table = quantise(kept, torch.zeros(len(kept), dtype=torch.long), 1)
    assert set(codes.tolist()) == {1, 3}
    assert table[0, 3].item() == pytest.approx(kept.abs().mean().item(), rel=0.05)
