"""The conclusion of a setting, in sentences. `templates/whatif_words.js` says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.interpolation import bracket
from analysis.numbers import significant, usd
from analysis.whatif_grid import Grid

Row = Mapping[str, Any]
FINE = 7
"""Digits where a value lies just outside."""


def pair(rows: Sequence[Row]) -> tuple[str, str]:
    """The cheapest a token, and the cheapest of another market, else the second cheapest."""
    ranked = sorted((row for row in rows if row["known"]), key=lambda row: row["usd_per_mtok"])
    if len(ranked) < 2:
        return (ranked[0]["name"] if ranked else "", "")
    first = ranked[0]
    others = [row for row in ranked[1:] if row["market"] != first["market"]]
    return first["name"], (others or ranked[1:])[0]["name"]


def sentences(grid: Grid, told: Mapping[str, Any]) -> list[str]:
    """What a reader should take away."""
    if not told["options"]:
        return ["Nothing is chosen to compare."]
    rows = {row["name"]: row for row in told["options"] if row["known"]}
    if not rows:
        return [_unknown(grid, told["setting"]["at"])]
    ranked = sorted(rows.values(), key=lambda row: row["usd_per_mtok"])
    best = ranked[0]
    where = ", ".join(
        f"{axis.title} {trimmed(value)} {axis.unit}".rstrip()
        for axis, value in zip(grid.axes, told["setting"]["at"], strict=True)
    )
    found = [
        f"{best['name']} is cheapest: {usd(best['usd_per_mtok'])} per million tokens, "
        f"{significant(best['hours_per_gtok'])} h per billion" + (f" ({where})." if where else ".")
    ]
    markets = dict.fromkeys(row["market"] for row in ranked)
    for market in markets:
        other = next(row for row in ranked if row["market"] == market)
        if other is not best and market != best["market"]:
            found.append(_beside(other, best, f"The cheapest on {market}, {other['name']},"))
    unlike = next((row for row in ranked if bool(row["fallback"]) != bool(best["fallback"])), None)
    if unlike is not None:
        what = "that falls back" if unlike["fallback"] else "without a fallback"
        found.append(_beside(unlike, best, f"The cheapest {what}, {unlike['name']},"))
    safe = next((row for row in ranked if row["gap_kind"] == "exact"), None)
    if safe is not None and safe is not best and best["gap_kind"] != "exact":
        lead = f"The cheapest that trains as if nothing had failed, {safe['name']},"
        found.append(_beside(safe, best, lead))
    if told["even"] is not None and best["usd_per_mtok"]:
        found += _even(grid, told)
    front = ", ".join(told["front"])
    found.append(f"Not beaten in dollars, hours and loss at once: {front}.")
    return [*found, _loss(best)]


def trimmed(value: float, digits: int = 4) -> str:
    """So many digits at most, without zeros that say nothing."""
    text = significant(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _unknown(grid: Grid, at: Sequence[float]) -> str:
    out = [
        f"{axis.title} {trimmed(value, FINE)} is outside {trimmed(axis.knots[0], FINE)} to "
        f"{trimmed(axis.knots[-1], FINE)} {axis.unit}".rstrip()
        for axis, value in zip(grid.axes, at, strict=True)
        if bracket(axis.knots, value, axis.scale) is None
    ]
    if not out:
        return "Unknown: the runs around this setting have not all finished."
    return f"Unknown: {'; '.join(out)}, and nothing is extrapolated."


def _beside(row: Row, best: Row, lead: str) -> str:
    times = f"takes {significant(row['hours_per_gtok'] / best['hours_per_gtok'])} times as long."
    if not best["usd_per_mtok"]:
        return f"{lead} costs {usd(row['usd_per_mtok'])} and {times}"
    cost = significant(row["usd_per_mtok"] / best["usd_per_mtok"])
    return f"{lead} costs {cost} times as much and {times}"


def _even(grid: Grid, told: Mapping[str, Any]) -> list[str]:
    a, b = told["pair"]
    even, found = told["even"], []
    factor, price = even["spot_factor"], even["spot_usd_per_h"]
    if factor is not None and price:
        if factor["mean"] is None:
            found.append(f"No spot price makes {a} and {b} cost the same with every seed.")
        else:
            at = usd(price * factor["mean"])
            found.append(f"{a} and {b} cost the same at a spot price of {at} an hour"
                         f"{_of_fixed(even, factor)}.")  # fmt: skip
    if grid.axes and not any(value is not None for along in even["along"].values()
                             for value in along["by_seed"]):  # fmt: skip
        titles = ", ".join(axis.title for axis in grid.axes)
        found.append(f"At these prices {a} stays the cheaper of the two all along {titles}.")
    for axis in grid.axes:
        along = even["along"][axis.knob]
        if along["mean"] is not None:
            value = f"{significant(along['mean'])}{_width(along, 1.0)} {axis.unit}".rstrip()
            found.append(f"All else equal they cost the same at {axis.title} {value}.")
        elif any(value is not None for value in along["by_seed"]):
            seeds = sum(value is not None for value in along["by_seed"])
            found.append(f"Along {axis.title} they come to cost the same with {seeds} of "
                         f"{len(along['by_seed'])} seeds.")  # fmt: skip
    return found


def _of_fixed(even: Mapping[str, Any], factor: Mapping[str, Any]) -> str:
    """Break-even as a share of the other price, with its interval."""
    price, fixed = even["spot_usd_per_h"], even["fixed_usd_per_h"]
    if not fixed:
        return ""
    share = 100 * price / fixed
    return (f", {significant(share * factor['mean'])}{_width(factor, share)} % of the "
            f"on-demand price (now {significant(share)} %)")  # fmt: skip


def _width(told: Mapping[str, Any], unit: float) -> str:
    width = told["half_width"]
    return "" if width is None else f" ± {significant(width * unit, 2)}"


def _loss(best: Row) -> str:
    """What is known of the loss of the cheapest."""
    name, kind = best["name"], best["gap_kind"]
    if kind == "exact":
        return f"Loss of {name}: that of a run without failures; it {best['gap_why']}."
    through = f"{significant(100 * best['full_depth_token_share'])} % of the tokens of a run " \
              "without failures went through all its stages"  # fmt: skip
    if kind == "unknown":
        return f"Loss of {name}: unknown ({best['gap_why']}); {through}."
    error = "" if best["gap_error"] is None else f" ± {significant(best['gap_error'], 2)}"
    gap = best["gap"]
    side = "above" if gap >= 0 else "below"
    size = significant(abs(gap), 2)
    return (f"Loss of {name}: {size}{error} nats {side} a run without failures "
            f"({kind}, {best['gap_why']}); {through}.")  # fmt: skip
