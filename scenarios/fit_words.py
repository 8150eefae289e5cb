"""A fit for a person: short, every number with its unit and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

LAWS_SHOWN = 3


def in_words(told: Mapping[str, Any]) -> str:
    """Text of what `fit.told` and its matches say."""
    lines = [
        f"{told['source']}: {told['form']}, {told['workers']} workers, {told['hours']:.4g} h",
        f"measured   {told['losses']} losses, {_number(told['losses_per_worker_hour'])} a "
        f"worker-hour up; availability {_number(told['availability'])}",
        f"           in events of two or more {_number(told['bulk_share'])} of the losses; "
        f"mean event {_number(told['mean_bulk'])}, largest {_number(told['largest_bulk'])}",
        f"           mean outage {_number(told['mean_outage_h'])} h; autocorrelation of the count "
        f"at 24 h {_number(told['autocorrelation_24h'])}",
    ]
    if told["zone_correlation"]:
        pairs = ", ".join(f"{key} {value:.2f}" for key, value in told["zone_correlation"].items())
        lines.append(f"           correlation between zones: {pairs}")
    for key, what in (("up", "up"), ("own", "up, but for bulks"), ("outage", "outage")):
        if told[key] is not None:
            lines += _laws(what, told[key])
    lines += [f"note       {note}" for note in told["notes"]]
    lines += [
        "",
        "# fitted (laws by maximum likelihood, the best by AIC); to paste into a scenario",
    ]
    lines += [yaml.dump({"pools": told["pools"]}, sort_keys=False, width=96).rstrip()]
    if told["match"]:
        lines += ["", *_match(told["match"], told["runs"])]
    return "\n".join(lines)


def _laws(what: str, of: Mapping[str, Any]) -> list[str]:
    lines = [f"fitted     {what}: {of['whole']} whole, {of['censored']} censored"]
    if not of["laws"]:
        lines.append("           too few for a law")
    for law in of["laws"][:LAWS_SHOWN]:
        parts = [
            f"{name} {law[name]:.3g}{'' if name in ('shape', 'sigma') else ' h'} "
            f"[{_number(low)}, {_number(high)}]"
            for name, (low, high) in law["interval_95"].items()
        ]
        lines.append(f"           {law['law']:<12}{', '.join(parts)}; AIC {law['aic']:.1f}")
    return lines


def _match(rows: Sequence[Mapping[str, Any]], runs: int) -> list[str]:
    lines = [f"simulated  {runs} times these pools, as long as the trace: median [5 %, 95 %]"]
    for row in rows:
        verdict = "" if row["holds"] else "   DOES NOT MATCH"
        lines.append(
            f"  {row['what']:<13} trace {row['trace']:<9.4g} pools {row['simulated']:.4g} "
            f"[{row['low']:.4g}, {row['high']:.4g}] {row['unit']}{verdict}"
        )
    return lines


def _number(value: float | int | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
