"""Memory that processes share: vectors cut out of it, and objects whose arrays lie in it.

POSIX shared memory lives in a file system that is small in containers (64 MB in Docker), where
writing past its end kills the process. An anonymous memory file has no such limit, and goes when
the last process that maps it does, however that ends.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Callable
from multiprocessing.reduction import DupFd
from typing import Any

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes. Matrix products may round by alignment, so every vector starts at a multiple of this."""


class Memory:
    """So many bytes, zero at first. A process that is being started receives them, not a copy.

    is_shared: False where a limit on file sizes (`ulimit -f`) forbids it.
    """

    def __init__(self, nbytes: int, fd: int | None = None) -> None:
        self.nbytes = max(1, nbytes)
        if fd is None:
            fd = _anonymous_file(self.nbytes)
        self._fd = fd
        self.is_shared = fd is not None
        self.buffer = mmap.mmap(-1 if fd is None else fd, self.nbytes)
        if fd is not None:
            weakref.finalize(self, os.close, fd)

    def __reduce__(self) -> tuple[Callable[..., Memory], tuple[int, Any]]:
        if self._fd is None:
            raise OSError(errno.EFBIG, "memory cannot be shared: a limit on file sizes forbids it")
        return _attach, (self.nbytes, DupFd(self._fd))


def _attach(nbytes: int, duplicate: Any) -> Memory:
    return Memory(nbytes, duplicate.detach())


def _anonymous_file(nbytes: int) -> int | None:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("stageout")
    else:  # not Linux: a file that has no name any more
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, nbytes)
    except OSError:
        os.close(fd)
        return None
    return fd


class Cutter:
    """Cuts float32 vectors out of memory, one after the other; without memory it only counts.

    Equal requests in equal order find the same places, in every process that maps the memory.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory
        self.nbytes = 0

    def __call__(self, count: int) -> Tensor:
        """float32[count]."""
        at = self.nbytes
        self.nbytes += _aligned(4 * count)
        if self._memory is None or count == 0:
            return torch.empty(0)
        return torch.frombuffer(self._memory.buffer, dtype=torch.float32, count=count, offset=at)


class Shipped:
    """An object on its way to other processes, the contents of its arrays in shared memory."""

    def __init__(self, value: object) -> None:
        arrays: list[pickle.PickleBuffer] = []
        self._pickled = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
        views = [array.raw() for array in arrays]
        self._spans: list[tuple[int, int]] = []
        end = 0
        for view in views:
            self._spans.append((end, end + view.nbytes))
            end += _aligned(view.nbytes)
        self._memory = Memory(end)
        for view, (start, stop) in zip(views, self._spans, strict=True):
            self._memory.buffer[start:stop] = view

    @property
    def is_shared(self) -> bool:
        """Whether it can be sent; see `Memory`."""
        return self._memory.is_shared

    def open(self) -> Any:
        """An equal object; its arrays are views of the shared memory: write to none of them."""
        whole = memoryview(self._memory.buffer)
        return pickle.loads(self._pickled, buffers=[whole[a:b] for a, b in self._spans])


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
