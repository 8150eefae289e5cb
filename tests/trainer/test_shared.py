"""Shared memory: what one process writes, another reads; nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from trainer.shared import ALIGNMENT, Cutter, Memory, Shipped


@dataclass(frozen=True)
class Thing:
    name: str
    array: NDArray[np.uint16]


def child(memory: Memory, shipped: Shipped) -> None:
    cut = Cutter(memory)
    cut(3)[:] = 7.0
    thing = shipped.open()
    cut(1)[:] = float(thing.array.sum()) + len(thing.name)


def test_a_child_works_on_the_same_memory() -> None:
    memory, shipped = Memory(256), Shipped(Thing("abc", np.arange(5, dtype=np.uint16)))
    process = multiprocessing.get_context("spawn").Process(target=child, args=(memory, shipped))
    process.start()
    process.join()
    assert process.exitcode == 0
    cut = Cutter(memory)
    assert cut(3).tolist() == [7.0] * 3
    assert cut(1).item() == 13.0


def test_vectors_are_aligned_apart_and_where_they_were_counted() -> None:
    count = Cutter()
    lengths = [1, 0, 16, 17, 1000]
    for length in lengths:
        count(length)
    memory = Memory(count.nbytes)
    cut, again = Cutter(memory), Cutter(memory)
    vectors = [cut(length) for length in lengths]
    assert [len(vector) for vector in vectors] == lengths
    assert cut.nbytes == count.nbytes
    assert all(vector.data_ptr() % ALIGNMENT == 0 for vector in vectors)
    for number, vector in enumerate(vectors):
        assert (vector == 0).all()
        vector.fill_(number)
    for number, length in enumerate(lengths):
        assert (again(length) == number).all()


def test_what_is_shipped_arrives_equal_and_its_arrays_are_shared() -> None:
    thing = Thing("x", np.arange(100_000, dtype=np.uint16))
    shipped = Shipped(thing)
    assert len(pickle.dumps(shipped._pickled)) < 1000
    one, other = shipped.open(), shipped.open()
    assert one.name == "x"
    assert np.array_equal(one.array, thing.array)
    assert np.shares_memory(one.array, other.array)


def test_files_are_closed_with_their_memory() -> None:
    before = len(os.listdir("/proc/self/fd"))
    memories = [Memory(100) for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) > before
    del memories
    assert len(os.listdir("/proc/self/fd")) == before


def test_under_a_limit_on_file_sizes_memory_is_there_but_not_shared() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        small, large = Memory(1000), Memory(1001)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert small.is_shared
    assert not large.is_shared
    assert Cutter(large)(250).tolist() == [0.0] * 250
    with pytest.raises(OSError, match="memory cannot be shared"):
        pickle.dumps(large)
