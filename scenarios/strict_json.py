"""JSON without NaN and infinity, which readers of other languages refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class TooLarge(Exception):
    """Seconds, bytes or dollars beyond what a number holds: prices or bandwidths that are typos."""


def dumps(value: Mapping[str, Any]) -> str:
    """One line of strict JSON: no NaN.

    Raises:
        TooLarge: a number is not finite.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        key = next(key for key in value if not _is_finite(value[key]))
        raise TooLarge(f"{key} is too large to be told") from None


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
