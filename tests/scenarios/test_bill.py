"""Published bills as arithmetic and through the engine; whether the timed job fits its devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.derive import job_config
from scenarios.fits import fullest_stage
from scenarios.load import ScenarioError, load
from scenarios.schema import Scenario
from sim.job import Job
from trainer.config import PRESETS, Boundary
from trainer.sizes import parameters

N = sum(parameters(PRESETS["8b"], 1, Boundary()))
A100_FLOPS = 312e12
MFU, GPUS, USD_PER_MILLION, TOKENS = 0.483, 48, 0.1202, 50.53e9
"""A published run of an 8B model (Crucible): 6 N FLOPs a token."""
USD_PER_A100_HOUR = 1.3534
FREE: dict[str, Any] = {
    "stages": {"bandwidth_mbps": 1e9, "latency_ms": 0},
    "store": {"up_mbps": 1e9, "down_mbps": 1e9, "latency_ms": 0},
}


def simulate(scenario: dict[str, Any]) -> tuple[Job, dict[str, float]]:
    """The job and its totals: tokens, seconds, dollars, bytes."""
    job = Job(job_config(Scenario.model_validate({"name": "a", "train": None, **scenario})))
    total = {"tokens": 0.0, "usd": 0.0, "egress": 0.0, "boundary": 0.0}
    for g in job.global_steps():
        total["tokens"] += int(g.steps.max(axis=1).sum()) * job.config.sizes.tokens
        total["usd"] += sum(g.usd.values())
        total["egress"] += g.usd["egress"]
        total["boundary"] += g.nbytes["boundary"]
        total["s"] = g.end_s
    return job, total


def test_a_published_bill_is_1_36_dollars_an_a100_hour() -> None:
    tokens_per_s = GPUS * A100_FLOPS * MFU / (6 * N)
    a100_h_per_million = GPUS * 1e6 / tokens_per_s / 3600
    assert USD_PER_MILLION / a100_h_per_million == pytest.approx(USD_PER_A100_HOUR, abs=5e-4)
    assert USD_PER_MILLION / (a100_h_per_million / N * 8e9) == pytest.approx(1.36, abs=5e-3)
    assert round(TOKENS / 1e6 * USD_PER_MILLION) == 6074


def test_the_engine_comes_to_the_published_bill() -> None:
    """Twelve replicas of four stages at that rate; links and exchange cost nothing here."""
    tokens = 16 * 8192
    step_s = 6 * N * tokens / (4 * A100_FLOPS * MFU)
    _, total = simulate(
        {
            "global_steps": 3,
            "cluster": {"replicas": 12, "stages": 4},
            "work": {
                "model": "8b",
                "sequences": 16,
                "micro_batches": 1,
                "stage_seconds": {"forward_s": step_s / 12, "backward_s": step_s / 6},
            },
            "pools": {"a100": {"usd_per_h": USD_PER_A100_HOUR}},
            "network": FREE,
        }
    )
    assert total["usd"] / total["tokens"] * 1e6 == pytest.approx(USD_PER_MILLION, rel=2e-3)


@pytest.mark.parametrize(
    ("boundary", "gigabytes"),
    [
        ({"codec": "none"}, 3 * 2 * 2 * 4096 / 1e3),
        ({"codec": "constrained"}, 3 * 2 * 2 * 4096 / 1e3),
        ({"codec": "shared", "ratio": 0.125}, 3 * (2 * 2 * 512 + 4) / 1e3),
        ({"codec": "independent", "ratio": 0.125}, 3 * (2 * 2 * 512 + 4) / 1e3),
        ({"codec": "shared", "ratio": 0.01}, 3 * (2 * 2 * 41 + 4) / 1e3),
    ],
)
def test_egress_of_a_pipeline_and_what_a_codec_leaves(
    boundary: dict[str, Any], gigabytes: float
) -> None:
    """Hidden 4096, four stages, bf16: 49 GB a million tokens, 0.98 dollars at 0.02 a gigabyte."""
    _, total = simulate(
        {
            "global_steps": 2,
            "cluster": {"replicas": 2, "stages": 4},
            "work": {"model": "8b", "sequences": 2},
            "method": {"boundary": boundary},
            "network": {"stages": {"usd_per_gb": 0.02}},
        }
    )
    millions = total["tokens"] / 1e6
    assert total["boundary"] / 1e9 / millions == pytest.approx(gigabytes, rel=1e-12)
    assert total["egress"] / millions == pytest.approx(0.02 * gigabytes, rel=1e-12)
    if boundary["codec"] == "none":
        assert (round(gigabytes), round(0.02 * gigabytes, 2)) == (49, 0.98)


# --- fits -----------------------------------------------------------------------------------


EIGHT = {
    "name": "a",
    "train": None,
    "cluster": {"replicas": 2, "stages": 4},
    "work": {"model": "8b", "sequences": 16, "micro_batches": 16, "device": "A100-80GB"},
}


def with_work(**changes: Any) -> Scenario:
    return Scenario.model_validate({**EIGHT, "work": {**EIGHT["work"], **changes}})  # type: ignore[dict-item]


def test_the_fullest_stage_by_hand() -> None:
    found = fullest_stage(with_work(schedule="1f1b"))
    assert found is not None
    layer = 218_112_000  # parameters
    assert (found.stage, found.state_bytes) == (0, 16 * (8 * layer + 128_256 * 4096))
    assert found.activation_bytes == 4 * 8192 * 8 * 2 * (6 * 4096 + 2 * 1024 + 3 * 14_336)
    assert str(found) == (
        "stage 0 takes 72.8 GB (weights, gradients and Adam 36.3, activations 36.5) of 80 on "
        "A100-80GB"
    )


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, False),
        ({"schedule": "1f1b"}, True),
        ({"recompute": True}, True),
        ({"gpus": 8}, True),
        ({"device": "A100", "schedule": "1f1b"}, False),
        ({"device": "B200", "schedule": "1f1b", "micro_batches": 8}, True),
        ({"fits": "ignore"}, True),
    ],
)
def test_a_job_larger_than_its_devices_is_an_error(
    changes: dict[str, Any], fits: bool, tmp_path: Path
) -> None:
    if fits:
        with_work(**changes)
        return
    file = tmp_path / "s.yaml"
    file.write_text("name: a\ntrain: null\ncluster: {replicas: 2}\n")
    told = [f"work.{key}={value}" for key, value in {**EIGHT["work"], **changes}.items()]  # type: ignore[dict-item]
    with pytest.raises(ScenarioError, match=r"work: stage \d takes [\d.]+ GB .* or say fits: ign"):
        load(file, told)


def test_without_a_device_nothing_is_said() -> None:
    assert fullest_stage(with_work(device=None)) is None
