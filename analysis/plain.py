"""Columns of plain text. Standard library only, and little of it."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose first row are its titles; the first column stands to the left."""
    clean = [[one_line(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    lines = []
    for first, *rest in clean:
        cells = [first.ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def one_line(name: str, most: int = 64) -> str:
    """A name without control characters, of bearable length."""
    return "".join(c if c.isprintable() else "?" for c in name)[:most]
