"""The finding in words, from the summaries' own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import numbers
from analysis.load import Run, Study
from analysis.reach import asked_loss, reach, target_loss

MEASURED, SIMULATED, ASSUMED = "measured", "simulated", "assumed"
MANY = 6
"""More arms than this are told by their extremes; the table has them all."""


@dataclass(frozen=True)
class Sentence:
    """A statement and how its numbers came about."""

    text: str
    kind: str = ""


def finding(study: Study) -> list[Sentence]:
    """What the runs showed, most important first."""
    found = [_losses(study)] if study.has_losses else [_throughput(study)]
    found += [_bill(study), _outages(study)]
    if not study.has_losses:
        trained = any(run.scenario.get("train") is not None for run in study.runs)
        why = "The model was never evaluated" if trained else "No model was trained"
        found.append(Sentence(f"{why}, so nothing is said of the loss."))
    target = target_loss(study)
    if target is not None and len(study.runs) > 1:
        found.append(_to_target(study, target))
    return [sentence for sentence in found if sentence.text]


def name(run: Run) -> str:
    """An arm's name in a sentence."""
    first, _, of = run.cell.partition(":")
    if first != "no_failure":
        return "the run" if run.cell == "run" else run.cell
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
            f"{stage} for {numbers.plain(steps)} global step{'' if steps == 1 else 's'}"
        )
    if kind == "script":
        script = law.get("script") or {}
        return plural(len(script), "scripted outage")
    others = {
        "none": "no outages",
        "pools": "outages by the laws of the pools",
        "trace": "the outages of a trace",
    }
    return others.get(str(kind), f"outages of kind {kind}")


def _percent(value: object) -> str:
    return f"{100 * value:.4g} %" if isinstance(value, int | float) else str(value)


def _throughput(study: Study) -> Sentence:
    if len(study.runs) > MANY:
        rate = _span([r.summary["tokens_per_s"] for r in study.runs], numbers.significant)
        text = f"the runs made {rate} tokens a second"
    else:
        parts: list[str] = []
        for run in study.runs:
            per_million = numbers.usd(run.summary["usd_per_million_tokens"])
            cost = f" at {per_million} a million" if study.has_prices else ""
            unit = "" if parts else " tokens a second"
            made = "" if parts else "made "
            rate = numbers.significant(run.summary["tokens_per_s"])
            parts.append(f"{name(run)} {made}{rate}{unit}{cost}")
        text = listed(parts)
    start = f"{regime(study)}, " if regime(study) else ""
    return Sentence(capital(f"{start}{text}."), SIMULATED)


def _losses(study: Study) -> Sentence:
    compared = [run for run in study.faulty if run.summary["val_loss_gap"] is not None]
    if not compared:
        ended = [r for r in study.runs if r.summary["val_loss"] is not None]
        text = listed([f"{name(r)} ended at a loss of {_loss(r)}" for r in _few(ended, _loss_of)])
        why = "; the no-failure run has not finished, so there is no gap" if study.faulty else ""
        start = f"{regime(study)}, " if regime(study) else ""
        return Sentence(capital(f"{start}{text}{why}."), MEASURED)
    parts: list[str] = []
    for run in _few(compared, lambda r: float(r.summary["val_loss_gap"])):
        where = numbers.nats(float(run.summary["val_loss_gap"]))
        other = numbers.loss(run.summary["val_loss_no_failure"])
        of = "" if parts else " its own no-failure run"
        verb = "" if parts else "ended "
        parts.append(f"{name(run)} {verb}{where}{of} ({_loss(run)} against {other})")
    counts = {run.summary["val_global_step"] + 1 for run in compared}
    after = plural(counts.pop(), "global step") if len(counts) == 1 else "number of global steps"
    start = f"{regime(study)}, " if regime(study) else ""
    many = f"of {len(compared)} arms the closest and the furthest: " if len(compared) > MANY else ""
    text = f"{start}{many}{listed(parts)}, after the same {after}."
    return Sentence(capital(text), MEASURED)


def _bill(study: Study) -> Sentence:
    end = " at the prices assumed below" if study.has_prices else "; no prices were given"
    if len(study.runs) > MANY:
        text = f"the runs took {_span([r.wall_s for r in study.runs], numbers.hours)} hours"
        if study.has_prices:
            usd = _span([r.summary["usd"]["total"] for r in study.runs], numbers.usd)
            text = f"{text} and {usd}"
        return Sentence(capital(f"{text}{end}."), SIMULATED)
    parts: list[str] = []
    for run in study.runs:
        cost = f" and {numbers.usd(run.summary['usd']['total'])}" if study.has_prices else ""
        took = "" if parts else "took "
        parts.append(f"{name(run)} {took}{numbers.hours(run.wall_s)} hours{cost}")
    return Sentence(capital(f"{listed(parts)}{end}."), SIMULATED)


def _outages(study: Study) -> Sentence:
    faulty = [run for run in study.faulty if run.summary["outages"]]
    if not faulty:
        return Sentence("No slot was lost in any run.", SIMULATED)
    lost = _span([run.summary["outages"] for run in faulty], lambda n: f"{n:,.0f}")
    rate = _span([losses_per_hour(run) for run in faulty], numbers.significant)
    degraded = _span([run.summary["degraded_share"] for run in faulty], numbers.percent)
    laws = [run.scenario.get("outages") or {} for run in faulty]
    expected = expected_degraded(laws[0]) if all(law == laws[0] for law in laws) else None
    beside = f" (the law gives {numbers.percent(expected)} in the long run)" if expected else ""
    return Sentence(
        f"{lost} {'loss' if lost == '1' else 'losses'} of a slot ({rate} per slot-hour up) left "
        f"{degraded} of the replica-rounds degraded{beside}; {_passed(faulty)}.",
        SIMULATED,
    )


def losses_per_hour(run: Run) -> float:
    """Losses of a joined slot over the hours that slots were joined."""
    told = run.summary
    up_s = told["replicas"] * told["stages"] * run.wall_s * told["availability"]
    return float(told["outages"] * 3600 / up_s) if up_s else 0.0


def _passed(faulty: Sequence[Run]) -> str:
    """Tokens through any depth and through all stages, over the no-failure run's."""
    of = "of the no-failure run's tokens"
    if len(faulty) > MANY:
        share = _span([run.summary["token_share"] for run in faulty], numbers.percent)
        deep = _span([run.summary["full_depth_token_share"] for run in faulty], numbers.percent)
        return f"the arms passed {share} {of} ({deep} at full depth)"
    parts: list[str] = []
    for run in faulty:
        share = numbers.percent(run.summary["token_share"])
        deep = numbers.percent(run.summary["full_depth_token_share"])
        passed = share if parts else f"passed {share} {of}"
        parts.append(f"{name(run)} {passed} ({deep} at full depth)")
    return listed(parts)


def expected_degraded(law: Mapping[str, Any]) -> float | None:
    """pD / (1 - p + pD), the long-run share of degraded replica-rounds of the published regime."""
    p, d = law.get("probability"), law.get("duration_global_steps")
    if law.get("kind") != "per_global_step" or law.get("start_step"):
        return None
    if not isinstance(p, int | float) or not isinstance(d, int) or p <= 0:
        return None
    return p * d / (1 - p + p * d)


def _to_target(study: Study, target: float) -> Sentence:
    runs = [run for run in study.runs if run.summary["val_loss"] is not None]
    parts, bounds = [], []
    for run in _few(runs, lambda r: _hours_to(r, target)):
        found = reach(run, target)
        if found is None:
            continue
        bounds.append(found.is_bound)
        by = "by " if found.is_bound else ""
        cost = f" and {numbers.usd(found.usd)}" if study.has_prices else ""
        parts.append(f"{name(run)} {by}{numbers.hours(found.end_s)} hours{cost}")
    is_asked = asked_loss(study) is not None
    if not is_asked and (len(parts) < 2 or all(bounds)):
        return Sentence("")
    missed = [name(run) for run in runs if reach(run, target) is None]
    loss = numbers.loss(target)
    if not parts:
        return Sentence(f"No run came to the target, a loss of {loss}.", MEASURED)
    what = "the target" if is_asked else "the highest of the final losses"
    end = f"; {listed(missed)} did not reach it" if missed else ""
    return Sentence(f"To come to a loss of {loss}, {what}, took: {listed(parts)}{end}.", SIMULATED)


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


def _span(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The one value, or the lowest to the highest."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def capital(text: str) -> str:
    """A sentence's start in a capital; an arm's name there keeps its letters."""
    ours = text.startswith(("no failure ", "the ", "of "))
    return text[0].upper() + text[1:] if ours else text


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
    if any((run.summary["val_loss_gap"] or 0.0) < 0 for run in study.faulty):
        found.append(
            Sentence(
                "An arm that ends below its own no-failure run shows how far chance reaches here; "
                "it does not say that outages help."
            )
        )
    return found + proxy(study)


def proxy(study: Study) -> list[Sentence]:
    """That another model is timed than the one that is trained, where it is so."""
    timed = next((run for run in study.runs if run.summary.get("proxy") is True), None)
    if timed is None:
        return []
    model = numbers.plain((timed.scenario.get("work") or {}).get("model"))
    return [
        Sentence(
            "Proxy: the losses are of the small model that was trained here; hours, dollars and "
            f"bytes are of the timed job (work.model: {model}). Whether the gap carries over to "
            "it was not tested."
        )
    ]
