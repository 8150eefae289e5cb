"""Numbers as people read them. Standard library only."""

from __future__ import annotations

import math

HOUR_S = 3600.0
NOTHING = "-"


def significant(value: float, digits: int = 3) -> str:
    """Plain notation with so many significant digits, thousands set apart: 1,930, 1.93, 0.0012."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    return f"{rounded:,.{max(0, min(decimals, 12))}f}"


def hours(seconds: float | None) -> str:
    """Hours of so many seconds."""
    return NOTHING if seconds is None else significant(seconds / HOUR_S)


def usd(dollars: float | None) -> str:
    """Dollars; cents are kept where they matter."""
    if dollars is None:
        return NOTHING
    if dollars and abs(dollars) < 1:
        return f"${significant(dollars)}"
    return f"${dollars:,.2f}" if abs(dollars) < 100 else f"${dollars:,.0f}"


def percent(share: float | None) -> str:
    """A share in percent; a decimal near the ends, and never a false 0 or 100."""
    if share is None:
        return NOTHING
    value = 100 * share
    if 0 < value < 0.05:
        return "<0.1 %"
    if 99.95 <= value < 100:
        return ">99.9 %"
    is_edge = 0 < abs(value) < 9.95 or 99 < abs(value) < 100
    return f"{value:.1f} %" if is_edge else f"{value:.0f} %"


def loss(value: float | None) -> str:
    """Nats per token, or bits per byte."""
    return NOTHING if value is None else f"{value:.3f}"


def gap(value: float | None) -> str:
    """A signed difference of losses; a fourth decimal where three would show nothing."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    return f"{value:+.3f}" if abs(value) >= 0.0005 else f"{value:+.1e}"


def mean_gap(value: float | None) -> str:
    """A signed mean to three decimals, as its interval has; 0 only where it is exactly that."""
    if value is None or value == 0:
        return gap(value)
    return f"{round(value, 3) + 0.0:+.3f}"  # not -0.000


def nats(value: float) -> str:
    """A difference of losses in words."""
    if value == 0:
        return "exactly level with"
    side = "above" if value > 0 else "below"
    return f"{gap(abs(value)).lstrip('+')} nats {side}"


def count(value: float | None) -> str:
    """A count with a suffix: 12,345 stays, 12.3M, 4.56G."""
    if value is None:
        return NOTHING
    for scale, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= scale:
            return f"{significant(value / scale)}{suffix}"
    return f"{value:,.0f}" if float(value).is_integer() else significant(value)


def plain(value: object) -> str:
    """A scenario's or environment's value as a reader would write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    return str(value)
