"""What a study found, in words: gaps with their intervals, and who lost less."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import numbers, words
from analysis.families import depths
from analysis.load import Study
from analysis.point_table import NONE_TOLD, Difference, differences, has_losses, side
from analysis.rates import span
from analysis.stats import LEVEL, Interval
from analysis.study_beside import beside, first_run, interval
from analysis.sweep import LENGTH, PROBABILITY, Point, Series, Sweep, value_of
from analysis.words import MEASURED, Sentence, listed

LINES, PAIRS, VALUES = 6, 3, 6
"""No more lines, pairs of arms, values in a row than these are told; the tables have them all."""
RULE = (
    f"A gap or a difference is told only where its {100 * LEVEL:.0f} % interval leaves zero out "
    "and it is larger than what repeats without failures differ by."
)


def finding(study: Study, sweep: Sweep) -> list[Sentence]:
    """Most important first."""
    found = _gaps(study, sweep) + _rankings(sweep) if has_losses(sweep) else []
    if not found:
        trained = any(run.scenario.get("train") is not None for run in study.runs)
        why = "No run with failures was evaluated beside its no-failure run" if trained else (
            "No model was trained")  # fmt: skip
        found = [Sentence(f"{_law(study, sweep)}. {why}, so nothing is said of the loss.")]
    return [sentence for sentence in found + beside(study, sweep) if sentence.text]


def caution(study: Study, sweep: Sweep) -> list[Sentence]:
    """What the numbers cannot carry."""
    found = []
    if len(sweep.seeds) == 1:
        found.append("One seed, not evidence: nothing is known of how far another would move this.")
    elif has_losses(sweep):
        told = [d for d in differences(sweep) if d.told.half_width is not None]
        many = len(told) + sum(len(p.values()) > 1 for p in sweep.points)
        found.append(
            f"{RULE} Each of {many} intervals stands for itself: of those that hold no difference, "
            f"about {100 * (1 - LEVEL):.0f} in 100 would show one by chance."
        )
    if has_losses(sweep) and sweep.until is not None:
        found.append(
            f"Seeds were added to a point until its interval was no wider than ± {sweep.until:g} "
            "nats or their number was used up. Some intervals are narrow by luck and end it too "
            "soon, so these hold the truth somewhat less often than 19 times in 20."
        )
    if has_losses(sweep) and sweep.noise() is None:
        found.append(
            "No repeat without failures has finished (a control named `noise`), so how far chance "
            "alone moves a loss here is unknown."
        )
    if has_losses(sweep) and not depths(sweep):
        found.append(
            "No model without inner stages has finished (a control named `depth`), so how much "
            "there is to lose by skipping is unknown."
        )
    return [Sentence(text) for text in found] + words.proxy(study)


# --- gaps -----------------------------------------------------------------------------------


def _law(study: Study, sweep: Sweep) -> str:
    """What broke, with the values that were swept."""
    law = first_run(study, sweep).scenario.get("outages") or {}
    for key in (PROBABILITY, LENGTH):
        if key in sweep.numeric:
            values = [value for value in sweep.parameters[key] if value]
            shown = span(values, lambda value, key=key: value_of(key, value))  # type: ignore[misc]
            law = {**law, key.rpartition(".")[2]: shown}
    return f"With {words.law_words(law)}, over {sweep.seed_words}"


def _gaps(study: Study, sweep: Sweep) -> list[Sentence]:
    lines = [line for line in sweep.series() if any(p.values() for p in line.points)]
    if not lines:  # nothing orders the points: each is told by itself
        told = [f"{sweep.name(p.arm, p.parameters)} {_verdict(sweep, p)}"
                for p in sweep.points if p.values()]  # fmt: skip
        first = Sentence(f"{_law(study, sweep)}: {'; '.join(told[:LINES])}.", MEASURED)
        return [first, _in_the_table(len(told) - LINES, "point")]
    found = [Sentence(_line(sweep, line), MEASURED) for line in lines[:LINES]]
    first = Sentence(f"{_law(study, sweep)}: {found[0].text}", MEASURED)
    return [first, *found[1:], _in_the_table(len(lines) - LINES, "line")]


def _verdict(sweep: Sweep, point: Point) -> str:
    told = point.interval()
    assert told is not None, "has values"
    says = {"level": "cannot be told from its own no-failure run", "unknown": "ended"}.get(
        side(told, sweep.noise(point.arm)), f"ended {told.side} its own no-failure run"
    )
    return f"{says} ({interval(told, ' nats')})"


def _line(sweep: Sweep, line: Series) -> str:
    """One arm's gaps, those alike together; where failures are off there is nothing to tell."""
    along = str(sweep.along)
    groups: dict[str, list[tuple[str, Interval]]] = {}
    for point in line.points:
        told = point.interval()
        if told is not None and (point.parameters[along] != 0 or told.mean != 0):
            group = side(told, sweep.noise(line.arm))
            groups.setdefault(group, []).append((value_of(along, point.parameters[along]), told))
    says = {
        "level": "cannot be told from its own no-failure run at",
        "above": "it ended above at",
        "below": "it ended below at",
        "unknown": "ended, against its own no-failure run, at",
    }
    if len(groups) > 1:
        says["unknown"] = "it ended at"
    if "level" not in groups:
        says |= {"above": "ended above its own no-failure run at"}
        says |= {"below": "ended below its own no-failure run at"}
    parts = [f"{says[group]} {_values(groups[group])}" for group in says if group in groups]
    return f"{line.name} {'; '.join(parts)}." if parts else f"{line.name}: no failures."


def _values(told: Sequence[tuple[str, Interval]]) -> str:
    if len(told) > VALUES:
        low, high = (f(told, key=lambda pair: pair[1].mean) for f in (min, max))
        ends = (f"{interval(found)} at {value}" for value, found in (low, high))
        return f"{len(told)} values ({' to '.join(ends)})"
    return listed([f"{value} ({interval(found)})" for value, found in told])


def _in_the_table(left: int, one: str, many: str = "") -> Sentence:
    """What is not told in words, if anything."""
    what = one if left == 1 else many or f"{one}s"
    return Sentence(f"{left} more {what}: see the table." if left > 0 else "")


# --- differences ----------------------------------------------------------------------------


def _rankings(sweep: Sweep) -> list[Sentence]:
    """A sentence a pair of arms; only what the paired intervals carry."""
    pairs: dict[tuple[str | None, str | None], list[Difference]] = {}
    for one in differences(sweep):
        pairs.setdefault((one.first.arm, one.second.arm), []).append(one)
    found = [_ranking(sweep, told) for told in list(pairs.values())[:PAIRS]]
    return [*found, _in_the_table(len(pairs) - PAIRS, "pair of arms", "pairs of arms")]


def _ranking(sweep: Sweep, told: Sequence[Difference]) -> Sentence:
    one, two = told[0].first.arm, told[0].second.arm
    sides: dict[str, list[Difference]] = {}
    for difference in told:
        if difference.told.mean != 0 or difference.told.half_width != 0:
            sides.setdefault(difference.side, []).append(difference)
    parts = []
    for name, who in (("below", one), ("above", two)):
        if name in sides:
            by = span([abs(d.told.mean) for d in sides[name]], numbers.loss)
            lower = sides[name][0].lower
            parts.append(f"{who} {lower}{_places(sweep, sides[name])} (by {by} nats, paired)")
    if "level" in sides:
        parts.append(f"{NONE_TOLD}{_places(sweep, sides['level'])}")
    if not parts:
        return Sentence("")
    return Sentence(f"{one} against {two}: {'; '.join(parts)}.", MEASURED)


def _places(sweep: Sweep, told: Sequence[Difference]) -> str:
    """Where two arms were compared."""
    every = [difference.first.parameters for difference in told]
    if not every[0]:
        return ""
    if len(every[0]) == 1:
        names = [value_of(key, value) for of in every for key, value in of.items()]
    else:
        names = [sweep.name(None, of) for of in every]
    if len(every[0]) > 1 and len(names) > 1:
        return f" at {len(names)} points"
    return f" at {listed(names)}" if len(names) <= VALUES else f" at {len(names)} values"
