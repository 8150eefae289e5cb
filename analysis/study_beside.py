"""What a study's gaps stand beside: noise, depth, text, outages, real pools, the bill; in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from analysis import numbers, words
from analysis.families import depths
from analysis.flagship import Clock, clock_of, round_words
from analysis.load import Run, Study
from analysis.point_table import side
from analysis.rates import inner_stages, lean_of, span
from analysis.regimes import REGIMES, Regime
from analysis.stats import Interval, root_mean_square
from analysis.sweep import LENGTH, NOISE, PROBABILITY, Sweep, value_of, values_of
from analysis.words import ASSUMED, MEASURED, SIMULATED, Sentence, listed

LINES = 6
"""No more lines, or values in a row, than these are told; the tables have them all."""


def beside(study: Study, sweep: Sweep) -> list[Sentence]:
    """All of it that is known."""
    found = [_noise(sweep), _depth(sweep), _lean(sweep), _text(study, sweep)]
    found += [_degraded(study, sweep), _where(study, sweep), _bill(study, sweep)]
    return [sentence for sentence in found if sentence.text]


def interval(told: Interval, unit: str = "") -> str:
    """+0.090 ± 0.007; a single seed has no interval."""
    if told.half_width is None:
        return f"{numbers.mean_gap(told.mean)}{unit}, one seed"
    return f"{numbers.mean_gap(told.mean)} ± {told.half_width:.3f}{unit}"


def first_run(study: Study, sweep: Sweep) -> Run:
    """A run with failures, if one has finished."""
    runs = {run.path: run for run in study.runs}
    paths = [c.entry.path for p in sweep.points for c in p.done if c.entry is not None]
    broken = [runs[path] for path in paths if runs[path].summary["outages"]]
    return (broken or [runs[path] for path in paths] or list(study.runs))[0]


def _noise(sweep: Sweep) -> Sentence:
    moved = values_of(sweep.control(NOISE))
    if not moved:
        return Sentence("")
    most, usual = max(map(abs, moved)), root_mean_square(moved)
    return Sentence(
        f"The noise floor: repeats without failures differ from what they repeat by up to "
        f"{most:.3f} nats ({usual:.3f} root mean square of {len(moved)}).",
        MEASURED,
    )


def _depth(sweep: Sweep) -> Sentence:
    """The depth value of each method, and how much of it the highest rate takes."""
    parts, spent = [], []
    known = depths(sweep)
    for family, told in known:
        is_told = len(known) > 1 or len(sweep.arms) > 1
        whose = f" ({family.named(listed(family.arms))})" if is_told else ""
        parts.append(f"{interval(told, ' nats')}{whose}")
        for line in sweep.series()[:LINES]:
            last = line.points[-1].interval()
            is_known = side(told, sweep.noise(line.arm)) in ("above", "unknown") and told.mean > 0
            if family.holds(line.points[-1]) and last is not None and is_known:
                spent.append(f"{line.name} {numbers.percent(last.mean / told.mean)}")
    if not parts:
        return Sentence("")
    along = sweep.along
    top = value_of(along, max(sweep.parameters[along])) if along else ""
    text = (
        f"A model without inner stages ended {listed(parts)} from its no-failure run: the depth "
        "value, what inner stages are worth here."
    )
    beside = f" Gaps at {top} in parts of it: {listed(spent)}." if spent else ""
    return Sentence(f"{text}{beside}", MEASURED)


def _lean(sweep: Sweep) -> Sentence:
    """Skipping at evaluation, at the two ends of the first line."""
    lines, stages = sweep.series(), inner_stages(sweep)
    if not lines or not stages:
        return Sentence("")
    known = [p for p in lines[0].points if p.mean(lean_of(stages[0])) is not None]
    if len(known) < 2:
        return Sentence("")
    parts = []
    for point in (known[0], known[-1]):
        rises = [mean for stage in stages if (mean := point.mean(lean_of(stage))) is not None]
        value = value_of(str(sweep.along), point.parameters[str(sweep.along)])
        parts.append(f"{span(rises, numbers.gap)} nats at {value}")
    return Sentence(
        f"Skipping one inner stage at evaluation costs the final model of {lines[0].name} "
        f"{' and '.join(parts)}.",
        MEASURED,
    )


def _text(study: Study, sweep: Sweep) -> Sentence:
    """What counting alone reaches on the same text."""
    text = text_nats(study)
    healthy = {c.healthy.path: c.healthy.summary["val_loss"] for c in sweep.cells if c.healthy}
    losses = [loss for loss in healthy.values() if loss is not None]
    parts = [f"{text[key]:.3f} ({words_})" for key, words_ in (
        ("unigram_nats", "single tokens"), ("bigram_nats", "pairs")) if key in text]  # fmt: skip
    if not parts or not losses:
        return Sentence("")
    return Sentence(
        f"Counting alone reaches {listed(parts)} nats a token on the held-out text; the no-failure "
        f"runs ended at {span(losses, numbers.loss)}.",
        MEASURED,
    )


def text_nats(study: Study) -> Mapping[str, float]:
    """Entropies of the corpus, where the runs recorded them."""
    for run in study.runs:
        found = run.env.get("text")
        if isinstance(found, Mapping):
            return {k: float(v) for k, v in found.items() if isinstance(v, int | float)}
    return {}


def _degraded(study: Study, sweep: Sweep) -> Sentence:
    along = sweep.along
    law: Mapping[str, Any] = first_run(study, sweep).scenario.get("outages") or {}
    if along is None or LENGTH in sweep.numeric:
        return Sentence("")
    parts = []
    for value in sorted(sweep.parameters[along]):
        of = [p for p in sweep.points if p.parameters[along] == value]
        shares = [mean for p in of if (mean := p.mean(itemgetter("degraded_share"))) is not None]
        if shares and value:
            swept = {key.rpartition(".")[2]: v for key, v in of[0].parameters.items()}
            expected = words.expected_degraded({**law, **swept})
            beside = f" (in the long run {numbers.percent(expected)})" if expected else ""
            parts.append(f"{numbers.percent(fmean(shares))} at {value_of(along, value)}{beside}")
    if not parts:
        return Sentence("")
    return Sentence(f"Replica-rounds degraded, realised: {listed(parts[:LINES])}.", SIMULATED)


def _where(study: Study, sweep: Sweep) -> Sentence:
    """Where real pools lie against what was tested."""
    clock = clock_of(study, sweep) if sweep.along == PROBABILITY else None
    known = [value for value in sweep.parameters.get(PROBABILITY, ()) if value]
    if clock is None or not known:
        return Sentence("")
    low, high = clock.per_hour(min(known)), clock.per_hour(max(known))
    inside = [r for r in REGIMES if r.independent[1] >= low and r.independent[0] <= high]
    below = [r for r in REGIMES if r.independent[1] < low]
    above = [r for r in REGIMES if r.independent[0] > high]
    parts = [f"{listed([_regime(r) for r in found])} {verb} {where}"
             for where, found in (("inside", inside), ("below", below), ("above", above)) if found
             for verb in ("lies" if len(found) == 1 else "lie",)]  # fmt: skip
    return Sentence(f"{_tested(clock, low, high)}: {'; '.join(parts)}.", ASSUMED)


def _tested(clock: Clock, low: float, high: float) -> str:
    which = "inner-slot-hour" if clock.is_inner else "hour of a slot that can be lost"
    show = numbers.significant
    return (
        f"At {round_words(clock)} a round (simulated) the tested rates are {show(low, 2)} to "
        f"{show(high, 2)} losses per {which}. Of real pools only the losses that come alone are "
        "like these; by them"
    )


def _regime(regime: Regime) -> str:
    return f"{regime.name} ({numbers.percent(regime.in_bulk)} in bulk)"


def _bill(study: Study, sweep: Sweep) -> Sentence:
    """Hours and dollars at the highest value of every line, and of its no-failure runs."""
    along = sweep.along
    lines = [line for line in sweep.series() if line.points[-1].done]
    if along is None or not lines:
        return Sentence("")
    top = value_of(along, max(sweep.parameters[along]))
    parts, healthy = [], []
    for line in lines[:LINES]:
        cells = line.points[-1].done
        spent = _spent(study, [c.entry.summary for c in cells if c.entry])
        parts.append(f"{line.name} took {spent} at {top}")
        healthy.append(_spent(study, [c.healthy.summary for c in cells if c.healthy]))
    if len(set(healthy)) == 1:
        parts.append(f"no failure {healthy[0]}")
    else:
        both = zip(parts, healthy, strict=True)
        parts = [f"{part} ({own} without failures)" for part, own in both]
    end = ", at the prices assumed below" if study.has_prices else ""
    return Sentence(f"For the same global steps {listed(parts)}{end}.", SIMULATED)


def _spent(study: Study, summaries: Sequence[Mapping[str, Any]]) -> str:
    """Mean hours, and dollars where anything has a price."""
    if not summaries:
        return "not finished"
    hours = numbers.hours(fmean(s["wall_s"] for s in summaries))
    usd = numbers.usd(fmean(s["usd"]["total"] for s in summaries))
    return f"{hours} hours and {usd}" if study.has_prices else f"{hours} hours"
