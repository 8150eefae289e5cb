"""Rows 13 to 18 and 24 of docs/validation.md: schedules, links, exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scenarios.bench import EXACT, Bench, Check, Played
from sim import theory
from sim.config import GB
from sim.network import BITS

FORWARD_S, BACKWARD_S = 0.010, 0.020
"""Of a stage in validation/pipeline.yaml."""


def rows_13_and_14(_: Bench) -> Iterator[Check]:
    """Milliseconds of an inner step through equal stages, and the share that is bubble."""
    for stages, m in ((4, 8), (4, 16), (8, 8)):
        for schedule in ("gpipe", "1f1b"):
            run = Bench().play("pipeline", f"{schedule}_s{stages}_m{m}")
            what = f"S {stages}, m {m}, {schedule}"
            target = theory.gpipe_s(m, [FORWARD_S] * stages)
            target += theory.gpipe_s(m, [BACKWARD_S] * stages)
            yield step_ms(run, "13", what, target)
            busy = run.slot_share("compute") + run.slot_share("bubble")
            bubble, share = run.slot_share("bubble") / busy, theory.bubble_share(m, stages)
            what, tolerance = f"bubble share, {what}", EXACT * share
            yield Check("13", what, "pipeline", share, bubble, tolerance, "arithmetic")
    for stages, m in ((4, 8), (4, 16), (8, 16)):
        run = Bench().play("pipeline", f"recompute_s{stages}_m{m}")
        target = theory.gpipe_recompute_s(m, stages, FORWARD_S, BACKWARD_S)
        yield step_ms(run, "14", f"S {stages}, m {m}, gpipe that recomputes", target)


def rows_15_and_16(_: Bench) -> Iterator[Check]:
    """Milliseconds of an inner step of GPipe: unequal stages, latency, links as stages."""
    forward_s, backward_s = [0.010, 0.025, 0.005, 0.015], [0.020, 0.030, 0.050, 0.010]
    run = Bench().play("pipeline", "unequal")
    target = theory.gpipe_s(8, forward_s) + theory.gpipe_s(8, backward_s)
    yield step_ms(run, "15", "unequal stages, m 8", target)
    run = Bench().play("pipeline", "latency")
    even = theory.gpipe_s(8, [FORWARD_S] * 4) + theory.gpipe_s(8, [BACKWARD_S] * 4)
    yield step_ms(run, "16", "5 ms a hop", even + 2 * 3 * 0.005)
    run = Bench().play("pipeline", "link")
    bytes_per_s = run.scenario.network.stages.bandwidth_mbps * 1e6 / BITS
    link_s = run.job.config.sizes.hop_bytes / 8 / bytes_per_s
    target = sum(theory.gpipe_s(8, [t, link_s] * 3 + [t]) for t in (FORWARD_S, BACKWARD_S))
    yield step_ms(run, "16", "links as stages", target)


def row_16b(_: Bench) -> Iterator[Check]:
    """Milliseconds of an inner step of 1F1B, which pays a hop's latency every cycle."""
    for (m, c_ms), target_ms in theory.LATENCY_UNDER_1F1B_MS.items():
        run = Bench().play("pipeline", f"latency_m{m}_c{c_ms}")
        yield step_ms(run, "16b", f"{c_ms} ms a hop, m {m}, 1f1b", target_ms / 1e3)


def step_ms(run: Played, row: str, what: str, target_s: float) -> Check:
    """A step of a run in which nothing breaks and the exchange takes no time."""
    value = 1e3 * run.wall_s / len(run.steps) / run.job.config.inner_steps
    target, name = 1e3 * target_s, run.scenario.name
    return Check(row, f"ms a step, {what}", name, target, value, EXACT * target, "arithmetic")


def rows_17_and_18(_: Bench) -> Iterator[Check]:
    """Seconds of an exchange among 8 workers, 10 Gb/s and 1 ms apart."""
    for row, via, formula, gigabytes in (
        ("17", "ring", theory.ring_all_reduce_s, 1.0),
        ("18", "allgather", theory.all_gather_s, 0.01),
    ):
        run = Bench().play("exchange", via)
        target = formula(8, gigabytes * GB, 1.25e9, 0.001)
        what = f"s of {'an' if via == 'allgather' else 'a'} {via}, {gigabytes:g} GB each"
        yield _exchange_s(run, row, what, target)


def row_24(_: Bench) -> Iterator[Check]:
    """A published round: its exchange by arithmetic, and the share of time left to compute."""
    run = Bench().play("round_72b", "stated")
    bits = BITS * theory.sparseloco_bytes(72.7e9, density=1 / 64, index_bits=12, value_bits=2)
    target = bits / 110e6 + 19 * bits / 500e6
    what = "s of an exchange, 72B, 20 peers, 110/500 Mb/s"
    # edge chunks keep at least one value, and tables of codes travel too
    tolerance, because = 1e-3 * target, "the model's shape is assumed"
    yield Check("24", what, run.scenario.name, target, _synced_s(run), tolerance, because)
    run = Bench().play("round_72b", "published")
    share = theory.compute_share(20 * 60.0, 70.0)
    what, value = "computing share, 20 min + 70 s", run.slot_share("compute")
    yield Check("24", what, run.scenario.name, share, value, EXACT * share, "arithmetic")


def _synced_s(run: Played) -> float:
    """Seconds of a round in which a slot exchanges."""
    return run.slot_share("sync") * run.wall_s / len(run.steps)


def _exchange_s(run: Played, row: str, what: str, target: float) -> Check:
    tolerance = EXACT * target
    return Check(row, what, run.scenario.name, target, _synced_s(run), tolerance, "arithmetic")


ROWS: tuple[Callable[[Bench], Iterator[Check]], ...] = (
    rows_13_and_14,
    rows_15_and_16,
    row_16b,
    rows_17_and_18,
    row_24,
)
