"""How the cells of a study are called: `skip, probability=0.05, seed 1`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

LONGEST = 32


def joined(parts: Sequence[str]) -> str:
    """Parts of a label that vary; those that do not are left out before."""
    return ", ".join(parts)


def with_seed(label: str, seed: int, single: str) -> str:
    """The label of a point's run; `single` is the point of a study that varies seeds alone."""
    return joined([*([label] if label != single else []), f"seed {seed}"])


def shorter(keys: Sequence[str]) -> dict[str, str]:
    """Of each key path its last segments, as many as make it differ from the others."""
    found = {}
    for key in keys:
        segments = key.split(".")
        ends = [".".join(segments[-n:]) for n in range(1, len(segments) + 1)]
        others = [f".{other}" for other in keys if other != key]
        free = (e for e in ends if not any(other.endswith(f".{e}") for other in others))
        found[key] = next(free, key)
    return found


def texts(values: Sequence[Any]) -> list[str]:
    """A short text for each value of a parameter, all different."""
    found = [_text(value) for value in values]
    count = Counter(found)
    return [
        text if text and count[text] == 1 else f"#{number}"
        for number, text in enumerate(found, start=1)
    ]


def _text(value: Any) -> str | None:
    if isinstance(value, dict) or (isinstance(value, list) and any(map(_is_nested, value))):
        return None
    if isinstance(value, list):
        text = "+".join(str(_text(item)) for item in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST and "," not in text else None


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)
