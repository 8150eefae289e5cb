"""Rows that come in one order and are wanted in another."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


class Sorter:
    """Takes rows of numbers and words as they come, and in the end gives them in order.

    They lie in a database without a name, which goes to a temporary file once it is large: memory
    does not grow with the rows. NaN comes out as None.

    Args:
        columns: names of the columns.
        by: those that the order goes by; equal rows stay as they came.
    """

    def __init__(self, columns: Sequence[str], by: Sequence[str]) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")  # nothing is ever taken back
        self._db.execute(f"CREATE TABLE sorted ({', '.join(columns)})")
        self._db.execute("BEGIN")  # one transaction for all, it is never ended
        self._insert = f"INSERT INTO sorted VALUES ({', '.join('?' * len(columns))})"
        self._select = f"SELECT * FROM sorted ORDER BY {', '.join([*by, 'rowid'])}"

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Raises OSError: no room for them on the disk."""
        with _as_disk_error():
            self._db.executemany(self._insert, rows)

    def batches(self, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """All rows in order, so many at a time; an empty batch if there are none.

        Raises OSError: no room on the disk.
        """
        with _as_disk_error():
            cursor = self._db.execute(self._select)
            yield cursor.fetchmany(size)
            while rows := cursor.fetchmany(size):
                yield rows

    def close(self) -> None:
        self._db.close()


@contextlib.contextmanager
def _as_disk_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(f"temporary file of rows to be sorted: {error}") from error
