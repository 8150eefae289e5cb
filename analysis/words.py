"""The finding in words, from the summaries' own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import numbers
from analysis.load import Run, Study
from analysis.reach import common_loss, reach

MEASURED, SIMULATED, ASSUMED = "measured", "simulated", "assumed"
MANY = 4
"""More arms than this are told by their extremes; the table has them all."""


@dataclass(frozen=True)
class Sentence:
    """A statement and how its numbers came about."""

    text: str
    kind: str = ""


def finding(study: Study) -> list[Sentence]:
    """What the runs showed, most important first."""
    found = []
    if study.has_losses:
        found += _losses(study)
    elif any(run.scenario.get("train") is not None for run in study.runs):
        found.append(Sentence("The model was never evaluated, so there is no validation loss."))
    else:
        found.append(
            Sentence("No model was trained: a study of time and money, without a word on the loss.")
        )
    found += [_bill(study), _outages(study)]
    target = common_loss(study)
    if target is not None and len(study.runs) > 1:
        found.append(_to_target(study, target))
    return [sentence for sentence in found if sentence.text]


def name(run: Run) -> str:
    """An arm's name in a sentence."""
    first, _, of = run.cell.partition(":")
    if first != "no_failure":
        return run.cell
    return f"no failure for {of}" if of else "no failure"


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def regime(study: Study) -> str:
    """What broke, as the start of a sentence; empty if nothing could."""
    laws = [run.scenario.get("outages") or {} for run in study.faulty]
    if not laws:
        return ""
    if any(law != laws[0] for law in laws):
        return "Each arm under its own outages"
    return f"With {law_words(laws[0])}"


def law_words(law: Mapping[str, Any]) -> str:
    """An `outages` block in words."""
    kind = law.get("kind", "none")
    if kind == "per_global_step":
        where = law.get("stages")
        stage = {"inner": "one inner stage", "ends": "an end stage", "all": "one stage"}.get(
            str(where), f"one of the stages {numbers.plain(where)}"
        )
        steps = law.get("duration_global_steps")
        return (
            f"a {_percent(law.get('probability'))} chance per replica and global step of losing "
            f"{stage} for {steps} global step{'' if steps == 1 else 's'}"
        )
    if kind == "script":
        script = law.get("script") or {}
        return f"{len(script)} scripted outage{'' if len(script) == 1 else 's'}"
    return {"none": "no outages", "pools": "outages by the laws of the pools"}.get(
        str(kind), f"outages of kind {kind}"
    )


def _percent(value: object) -> str:
    return f"{100 * value:.4g} %" if isinstance(value, int | float) else str(value)


def _losses(study: Study) -> list[Sentence]:
    compared = [run for run in study.faulty if run.summary["val_loss_gap"] is not None]
    if not compared:
        ended = [r for r in study.runs if r.summary["val_loss"] is not None]
        text = listed([f"{name(r)} ended at a loss of {_loss(r)}" for r in _few(ended, _loss_of)])
        why = "; its no-failure run has not finished, so there is no gap" if study.faulty else ""
        return [Sentence(f"{_capital(text)}{why}.", MEASURED)]
    parts: list[str] = []
    for run in _few(compared, lambda r: float(r.summary["val_loss_gap"])):
        ended = f"{name(run)} {'' if parts else 'ended '}"
        ended += numbers.nats(float(run.summary["val_loss_gap"]))
        other = numbers.loss(run.summary["val_loss_no_failure"])
        of = "" if parts else " its own no-failure run"
        parts.append(f"{ended}{of} ({_loss(run)} against {other})")
    counts = {run.summary["val_global_step"] + 1 for run in compared}
    after = f"{counts.pop():,} global steps" if len(counts) == 1 else "equally many global steps"
    start = f"{regime(study)}, " if regime(study) else ""
    many = f"of {len(compared)} arms the closest and the furthest: " if len(compared) > MANY else ""
    text = f"{start}{many}{listed(parts)}, after the same {after}."
    return [Sentence(_capital(text), MEASURED)]


def _bill(study: Study) -> Sentence:
    parts: list[str] = []
    for run in _few(study.runs, lambda r: float(r.summary["wall_s"])):
        cost = f" and {numbers.usd(run.summary['usd']['total'])}" if study.has_prices else ""
        took = "" if parts else "took "
        parts.append(f"{name(run)} {took}{numbers.hours(run.summary['wall_s'])} hours{cost}")
    of = "" if len(study.runs) <= MANY else f"of {len(study.runs)} runs the shortest and longest: "
    end = " at the prices assumed below" if study.has_prices else "; no prices were given"
    return Sentence(_capital(f"{of}{listed(parts)}{end}."), SIMULATED)


def _outages(study: Study) -> Sentence:
    faulty = [run for run in study.faulty if run.summary["outages"]]
    if not faulty:
        return Sentence("No slot was lost in any run.", SIMULATED)
    degraded = _span([float(run.summary["degraded_share"]) for run in faulty])
    lost = sorted({int(run.summary["outages"]) for run in faulty})
    count = f"{lost[0]:,}" if len(lost) == 1 else f"{lost[0]:,} to {lost[-1]:,}"
    expected = expected_degraded(faulty[0].scenario.get("outages") or {})
    same = all(r.scenario.get("outages") == faulty[0].scenario.get("outages") for r in faulty)
    beside = f" (the law alone gives {numbers.percent(expected)})" if same and expected else ""
    parts = [
        f"{name(run)} passed {numbers.percent(run.summary['token_share'])} of the no-failure "
        f"run's tokens, {numbers.percent(run.summary['full_depth_token_share'])} at full depth"
        for run in _few(faulty, lambda r: float(r.summary["token_share"]))
    ]
    text = (
        f"{count} losses of a slot left {degraded} of the replica-rounds degraded{beside}; "
        f"{listed(parts)}."
    )
    return Sentence(text, SIMULATED)


def expected_degraded(law: Mapping[str, Any]) -> float | None:
    """pD / (1 - p + pD), the long-run share of degraded replica-rounds of the published regime."""
    p, d = law.get("probability"), law.get("duration_global_steps")
    if law.get("kind") != "per_global_step" or law.get("start_step"):
        return None
    if not isinstance(p, int | float) or not isinstance(d, int) or p <= 0:
        return None
    return p * d / (1 - p + p * d)


def _to_target(study: Study, target: float) -> Sentence:
    parts = []
    runs = [run for run in study.runs if run.summary["val_loss"] is not None]
    for run in _few(runs, lambda r: _hours_to(r, target)):
        found = reach(run, target)
        if found is None:
            continue
        by = "by " if found.is_bound else ""
        cost = f" and {numbers.usd(found.usd)}" if study.has_prices else ""
        parts.append(f"{name(run)} {by}{numbers.hours(found.end_s)} hours{cost}")
    if len(parts) < 2:
        return Sentence("")
    worst = f"{numbers.loss(target)}, the highest of the final losses,"
    return Sentence(f"To come to a loss of {worst} took: {listed(parts)}.", SIMULATED)


def _hours_to(run: Run, target: float) -> float:
    found = reach(run, target)
    return found.end_s if found else float("inf")


def _few(runs: Sequence[Run], key: Callable[[Run], float]) -> list[Run]:
    """All runs, or of many the lowest and the highest."""
    if len(runs) <= MANY:
        return list(runs)
    return [min(runs, key=key), max(runs, key=key)]


def _loss_of(run: Run) -> float:
    return float(run.summary["val_loss"])


def _loss(run: Run) -> str:
    return numbers.loss(run.summary["val_loss"])


def _span(values: Sequence[float]) -> str:
    low, high = numbers.percent(min(values)), numbers.percent(max(values))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _capital(text: str) -> str:
    """A sentence's start; an arm's name there keeps its letters."""
    return text if text[:1].isupper() or not text.startswith("no failure") else "N" + text[1:]


def caution(study: Study) -> list[Sentence]:
    """What the numbers cannot carry."""
    found = []
    if any("one seed" in run.summary["label"] for run in study.runs):
        found.append(
            Sentence(
                "One seed, not evidence: how far another seed would move these numbers is unknown, "
                "and small gaps may be chance."
            )
        )
    if study.is_proxy:
        timed = next(run for run in study.runs if run.summary.get("proxy") is True)
        model = (timed.scenario.get("work") or {}).get("model")
        found.append(
            Sentence(
                "Proxy: the losses are of the small model that was trained here; hours, dollars "
                f"and bytes are of the timed job (work.model: {numbers.plain(model)}). Whether "
                "the gap carries over to it was not tested."
            )
        )
    return found
