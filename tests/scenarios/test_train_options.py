"""Options of training that clock and bill must know of, or must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.derive import timed_sizes
from scenarios.load import Loaded, ScenarioError
from scenarios.plan import plan
from scenarios.record import read_rows
from scenarios.run import execute
from trainer.sizes import parameters

Small = Callable[..., Loaded]


def quiet(text: str) -> None:
    del text


def test_moments_of_a_peer_are_restored_too_and_what_is_kept_is_not(small: Small) -> None:
    scenario = small("script").scenario
    each = parameters(scenario.timed_model(), 4, scenario.method.boundary)
    copies = {"zero": 1, "keep": 1, "peer": 3}
    for adam, count in copies.items():
        sizes = timed_sizes(small("script", f"train.on_return.adam={adam}").scenario)
        assert sizes.weights_bytes == tuple(4 * count * values for values in each)
    kept = timed_sizes(small("script", "train.on_return.error_feedback=keep").scenario)
    assert kept.weights_bytes == tuple(4 * values for values in each)


def test_restores_of_a_peers_moments_take_longer_and_cost_more(
    small: Small, tmp_path: Path
) -> None:
    rows = {}
    for adam in ("zero", "peer"):
        planned = plan(small("script", f"train.on_return.adam={adam}"), tmp_path / adam)
        run = planned.runs[planned.cells["run"]]
        execute(run, quiet)
        rows[adam] = list(read_rows(run.folder.metrics))
    restored = {adam: sum(row["restore_bytes"] for row in told) for adam, told in rows.items()}
    assert restored["peer"] == 3 * restored["zero"] > 0


def test_arms_that_differ_in_what_returns_share_their_no_failure_run(
    small: Small, tmp_path: Path
) -> None:
    arms = (
        "sweep.arms={fresh: {}, keep: {train.on_return: {adam: keep, error_feedback: keep}}, "
        "peer: {train.on_return.adam: peer}, drop: {train.stage_drop: 0.1}}"
    )
    planned = plan(small("script", arms), tmp_path)
    shared = {planned.baselines[cell] for cell in ("fresh", "keep", "peer")}
    assert len(shared) == 1
    assert planned.baselines["drop"] not in shared  # it is another way to train
    assert len(planned.runs) == 4 + 2


@pytest.mark.parametrize("outages", ["none", "per_global_step", "script"])
def test_the_coupling_holds_while_stages_are_dropped_and_the_clock_does_not_know(
    small: Small, tmp_path: Path, outages: str
) -> None:
    rows = {}
    for chance in (0.0, 0.7):
        planned = plan(small(outages, f"train.stage_drop={chance}"), tmp_path / f"{chance}")
        run = planned.runs[planned.cells["run"]]
        execute(run, quiet)  # asserts the coupling on every step
        rows[chance] = list(read_rows(run.folder.metrics))
    differ = {
        key
        for plain, dropped in zip(rows[0.0], rows[0.7], strict=True)
        for key in plain
        if plain[key] != dropped[key]
    }
    assert {"train_loss", "val_loss"} <= differ
    learned = {"train_loss", "val_loss", "val_bits_per_byte", "skip_stage_loss", "code_histogram"}
    assert differ <= learned


def test_stage_drop_without_an_inner_stage_is_an_error(small: Small) -> None:
    with pytest.raises(ScenarioError, match=r"train.stage_drop: needs an inner stage"):
        small("none", "train.stage_drop=0.1", "cluster.stages=2")
