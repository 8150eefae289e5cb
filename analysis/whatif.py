"""whatif.html: one page that holds a study's grid and its own small script; the same as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis import page, whatif_words
from analysis.bill import Setting, is_off_grid, outcome, scenario_setting
from analysis.breakeven import (
    Even,
    Rated,
    drivers,
    even_along,
    even_spot_factor,
    fixed_price,
    front,
    spot_price,
)
from analysis.files import write_atomically
from analysis.folders import AnalysisError, find
from analysis.grid_error import knot_errors, stated_error, with_scales
from analysis.penalty import Response, penalty, responses
from analysis.stats import LEVEL, t_quantile
from analysis.table import stale_prices
from analysis.whatif_grid import GAP, LINKS, ROUNDS, Grid, Option, read_grid

__all__ = ["AnalysisError", "answers", "read_all", "turned", "write_whatif"]

LEAST, MOST = 1e-9, 1e9
"""Of a knob that is not 0: with more, or less, sums of bills overflow."""
SCRIPTS = ("whatif_model.js", "whatif_words.js", "whatif_charts.js", "whatif_page.js")


def write_whatif(folder: Path, losses: Path | None = None) -> Path:
    """Write `whatif.html` into a study folder.

    Args:
        losses: a trained study, whose response tells the learning penalty of untrained cells.

    Raises:
        AnalysisError: no grid in the folder, or a broken file.
    """
    grid, told = read_all(folder, losses)
    templates = Path(page.__file__).parent / "templates"
    script = "\n" + "\n".join((templates / name).read_text("utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.render(
        "whatif.html.j2",
        {
            "grid": grid,
            "data": Markup(embedded(page_data(grid, told))),
            "script": Markup(script),
            "digest": digest,
            "labels": labels(grid, folder),
        },
    )
    path = Path(folder) / "whatif.html"
    write_atomically(path, text)
    return path


def read_all(folder: Path, losses: Path | None) -> tuple[Grid, tuple[Response, ...]]:
    """The grid, and what is known of losses that were not trained."""
    grid = with_scales(read_grid(Path(folder)))
    return grid, responses(Path(folder) if losses is None else losses)


def labels(grid: Grid, folder: Path) -> list[str]:
    """What must be said of all numbers."""
    seeds = len(grid.seeds)
    found = ["simulated", "one seed, not evidence" if seeds == 1 else f"{seeds} seeds"]
    if grid.unfinished:
        found.append(f"partial: {grid.unfinished} runs have not finished")
    return [*found, *stale_prices(find(Path(folder)))]


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that can neither end its script element nor begin another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(grid: Grid, told: Sequence[Response]) -> dict[str, Any]:
    """What the page's script reads."""
    keys = (*grid.quantities, ROUNDS, GAP)
    start = scenario_setting(grid)
    return {
        "name": grid.name,
        "axes": [asdict(axis) for axis in grid.axes],
        "pools": {name: asdict(pool) for name, pool in grid.pools.items()},
        "links": list(LINKS),
        "usd_per_gb": dict(grid.usd_per_gb),
        "usd_per_gb_month": grid.usd_per_gb_month,
        "start": list(start.at),
        "seeds": list(grid.seeds),
        "t95": t_quantile(LEVEL, len(grid.seeds) - 1) if len(grid.seeds) > 1 else None,
        "quantities": list(keys),
        "responses": [asdict(one) for one in told],
        "options": [
            {
                "name": option.name,
                "market": option.market,
                "policy": option.policy,
                "codec": option.codec,
                "fallback": option.fallback,
                "errors": [knot_errors(grid, option, i) for i in range(len(grid.axes))],
                "cells": [
                    None if runs is None else [[run.get(key) for key in keys] for run in runs]
                    for runs in option.cells
                ],
            }
            for option in grid.options
        ],
    }


# --- the same without a page ------------------------------------------------------------------


def turned(grid: Grid, knobs: Sequence[str]) -> Setting:
    """The scenario's setting with knobs turned: `losses_per_h=0.07`, `spot=1.2`.

    Knobs: an axis by its name, `usd_per_h.POOL`, a market for all its pools, `usd_per_gb.LINK`,
    `usd_per_gb_month`.

    Raises:
        AnalysisError: no such knob, or no number.
    """
    setting = scenario_setting(grid)
    for knob in knobs:
        name, _, text = knob.partition("=")
        try:
            value = float(text)
        except ValueError:
            raise AnalysisError(f"{knob}: a number is expected after =") from None
        if value != 0 and not LEAST <= value <= MOST:
            raise AnalysisError(f"{knob}: must be 0, or from {LEAST:g} to {MOST:g}")
        setting = _turn(grid, setting, name, value)
    return setting


def _turn(grid: Grid, setting: Setting, name: str, value: float) -> Setting:
    axes = [axis.knob for axis in grid.axes]
    what, _, which = name.partition(".")
    pools = [pool for pool, price in grid.pools.items() if price.market == name]
    if name in axes:
        i = axes.index(name)
        return replace(setting, at=(*setting.at[:i], value, *setting.at[i + 1 :]))
    if what == "usd_per_h" and which in grid.pools:
        pools = [which]
    if pools:
        return replace(setting, usd_per_h={**setting.usd_per_h, **dict.fromkeys(pools, value)})
    if what == "usd_per_gb" and which in LINKS:
        return replace(setting, usd_per_gb={**setting.usd_per_gb, which: value})
    if name == "usd_per_gb_month":
        return replace(setting, usd_per_gb_month=value)
    markets = dict.fromkeys(price.market for price in grid.pools.values())
    known = [*axes, *markets, *(f"usd_per_h.{pool}" for pool in grid.pools)]
    known += [*(f"usd_per_gb.{link}" for link in LINKS), "usd_per_gb_month"]
    raise AnalysisError(f"{name}: no such knob; there are {', '.join(known)}")


def answers(
    grid: Grid,
    told: Sequence[Response],
    setting: Setting,
    pair: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """All that the page tells at a setting.

    Args:
        pair: options to break even; by default the cheapest, and the cheapest of another market.
    """
    rows = [_row(grid, option, told, setting) for option in grid.options]
    known = {row["name"]: row for row in rows if row["known"]}
    rated = {name: Rated(row["usd_per_mtok"], row["hours_per_gtok"], row["gap"])
             for name, row in known.items()}  # fmt: skip
    first, second = pair or whatif_words.pair(rows)
    result: dict[str, Any] = {
        "setting": asdict(setting),
        "options": rows,
        "front": front(rated),
        "front_without_loss": front({n: replace(r, gap=0.0) for n, r in rated.items()}),
        "pair": [first, second] if first in known and second in known else None,
        "even": None,
        "drivers": [],
    }
    if first in known:
        result["drivers"] = [
            {**asdict(driver), "swing": driver.swing}
            for driver in drivers(grid, setting, grid.option(first))
        ]
    if result["pair"]:
        result["even"] = _even(grid, setting, grid.option(first), grid.option(second))
    return result | {"sentences": whatif_words.sentences(grid, result)}


def _row(grid: Grid, option: Option, told: Sequence[Response], setting: Setting) -> dict[str, Any]:
    plain = {key: getattr(option, key) for key in ("name", "market", "policy", "fallback")}
    found = outcome(grid, option, setting)
    if found is None:
        return {**plain, "known": False}
    off = [i for i in range(len(grid.axes)) if is_off_grid(grid, setting, i)]
    costs = penalty(option.policy, option.codec, told, found.degraded_share, found.outage_rounds,
                    found.gap, is_between=bool(off))  # fmt: skip
    return {
        **plain,
        "known": True,
        **asdict(found),
        "interpolated": bool(off),
        "error": stated_error(grid, option, setting.at),
        "gap": costs.gap,
        "gap_error": costs.error,
        "gap_kind": costs.kind,
        "gap_why": costs.why,
    }


def _even(grid: Grid, setting: Setting, a: Option, b: Option) -> dict[str, Any]:
    factor = even_spot_factor(grid, setting, a, b)
    return {
        "spot_factor": None if factor is None else _even_told(factor),
        "spot_usd_per_h": spot_price(grid, setting),
        "fixed_usd_per_h": fixed_price(grid, setting),
        "along": {
            axis.knob: _even_told(even_along(grid, setting, i, a, b))
            for i, axis in enumerate(grid.axes)
        },
    }


def _even_told(found: Even) -> dict[str, Any]:
    over = found.interval
    return {
        "by_seed": list(found.by_seed),
        "mean": None if over is None else over.mean,
        "half_width": None if over is None else over.half_width,
    }
