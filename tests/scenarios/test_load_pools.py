"""Laws, shocks, caps and queues of pools, as files tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from scenarios.catalogue import find, regimes
from scenarios.derive import no_failure
from scenarios.fit_match import lived
from scenarios.load import ScenarioError, dump, load
from scenarios.schema import Scenario
from sim.config import HOUR_S, LAW_KEYS, Pool
from sim.durations import Duration, ExponentialLaw, law
from sim.fate import mean_up_s


def read(pool: str, tmp_path: Path, *overrides: str, kind: str = "pools") -> Pool:
    file = tmp_path / "s.yaml"
    file.write_text(f"name: a\noutages: {{kind: {kind}}}\npools: {{p: {pool}}}\n", encoding="utf-8")
    loaded = load(file, list(overrides))
    (tmp_path / "again.yaml").write_text(dump(loaded.scenario), encoding="utf-8")
    assert load(tmp_path / "again.yaml").scenario == loaded.scenario
    return loaded.scenario.pools["p"]


@pytest.mark.parametrize(
    "pool",
    [
        "{up_h: 3, outage_h: {law: weibull, mean: 2, shape: 0.5}}",
        "{up_h: {law: weibull, scale: 2, shape: 1}, outage_h: {law: empirical, values: [1, 2]}}",
        "{up_h: {law: lognormal, mean: 3, sigma: 1}, outage_h: 1, refill_at_once: 1}",
        "{life_cap_h: 24, outage_h: 1}",
        "{shocks: {every_h: 40, share: 0.9, block_refill_h: {law: lognormal, mean: 1, sigma: 1}}}",
    ],
)
def test_pools_that_can_be(pool: str, tmp_path: Path) -> None:
    read(pool, tmp_path)


def test_a_law_without_a_name_is_exponential(tmp_path: Path) -> None:
    assert read("{up_h: {mean: 3}}", tmp_path).up_h == ExponentialLaw(mean=3)
    assert read("{up_h: {mean: 3}}", tmp_path, "pools.p.up_h=2").up_h == 2


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        (
            "{up_h: {law: weibul, mean: 3}}",
            "up_h.law: must be 'exponential', 'weibull', 'lognormal' or 'empirical' "
            "(got 'weibul'); did you mean 'weibull'?",
        ),
        (
            "{up_h: {law: weibull, mean: 2, shap: 0.5}}",
            "up_h.shap: unknown key; did you mean 'shape'?",
        ),
        (
            "{up_h: {law: exponential, mean: 2, sigma: 0.5}}",
            "up_h.sigma: unknown key; it belongs to law 'lognormal', here law is 'exponential'",
        ),
        ("{up_h: {law: weibull, shape: 1}}", "up_h: give exactly one of mean and scale"),
        (
            "{regime: spot}",
            "regime: is not in the catalogue (got 'spot')",
        ),
        ("{up_h: fast}", "up_h: must be a number or a map (got 'fast')"),
        ("{up_h: {law: empirical, values: [1, x]}}", "up_h.values.1: must be a number (got 'x')"),
        (
            "{up_h: 1, shocks: {every: 3, share: 1}}",
            "shocks.every: unknown key; did you mean 'every_h'?",
        ),
        (
            "{outage_h: 1}",
            "outage_h: needs up_h or life_cap_h or shocks beside it: this pool never fails",
        ),
        (
            "{up_h: 1, refill_at_once: 2}",
            "refill_at_once: needs outage_h beside it: nobody comes back",
        ),
    ],
)
def test_pools_that_cannot_be(pool: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(pool, tmp_path)
    assert f"pools.p.{problem}" in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        "regime: owned",
        "mean_outage_h: 1",
        "up_h: 1",
        "outage_h: 1",
        "life_cap_h: 1",
        "refill_at_once: 1",
        "shocks: {every_h: 1, share: 1}",
    ],
)
def test_laws_that_nothing_reads_are_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is used only with outages"):
        read(f"{{{key}}}", tmp_path, kind="none")


@pytest.mark.parametrize("name", [*regimes(), *list(regimes("zones"))[::5]])
def test_a_regime_loses_as_many_as_it_says(name: str) -> None:
    regime = find(name)
    assert regime is not None
    pool = regime.pool
    assert set(LAW_KEYS) >= pool.model_fields_set
    up_h = mean_up_s(pool) / HOUR_S
    assert 1 / up_h == pytest.approx(regime.losses_per_worker_hour, rel=0.01)
    shocked = 0.0 if pool.shocks is None else pool.shocks.share / pool.shocks.every_h * up_h
    assert shocked == pytest.approx(regime.in_bulk, abs=0.01)
    assert all((regime.source, regime.date, regime.fitted, regime.assumed))


def test_a_regime_becomes_the_laws_of_the_pool_and_given_ones_win(tmp_path: Path) -> None:
    spot = regimes()["ordinary-spot"].pool
    pool = read("{regime: ordinary-spot}", tmp_path)
    assert (pool.up_h, pool.outage_h, pool.shocks) == (spot.up_h, spot.outage_h, spot.shocks)
    pool = read("{regime: ordinary-spot, up_h: 3, shocks: null, life_cap_h: 24}", tmp_path)
    assert (pool.up_h, pool.outage_h, pool.shocks) == (3.0, spot.outage_h, None)
    assert pool.life_cap_h == 24
    pool = read("{regime: ordinary-spot}", tmp_path, "pools.p.regime=owned")
    assert pool.up_h == ExponentialLaw(mean=5000)


@pytest.mark.parametrize("name", regimes())
def test_a_regime_is_scaled_to_a_rate_and_an_outage(name: str, tmp_path: Path) -> None:
    own = regimes()[name]
    pool = read(f"{{regime: {name}, losses_per_h: 0.07, mean_outage_h: 1.3}}", tmp_path)
    assert HOUR_S / mean_up_s(pool) == pytest.approx(0.07, rel=0.01)
    assert pool.outage_h is not None
    assert law(pool.outage_h, 1.0).mean == pytest.approx(1.3)
    assert shape_of(pool.up_h) == shape_of(own.pool.up_h)
    assert shape_of(pool.outage_h) == shape_of(own.pool.outage_h)
    if pool.shocks is not None and own.pool.shocks is not None:
        bulk = [p.shocks.share / p.shocks.every_h * mean_up_s(p) for p in (pool, own.pool)]
        assert bulk[0] == pytest.approx(bulk[1]), "the same share is lost in bulk"


def shape_of(duration: Duration | None) -> dict[str, Any]:
    assert isinstance(duration, BaseModel)
    return duration.model_dump(exclude={"mean"})


@pytest.mark.parametrize("key", ["losses_per_h: 0.1", "mean_outage_h: 2"])
def test_only_a_regime_is_scaled(key: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="needs a regime beside it"):
        read(f"{{up_h: 1, {key}}}", tmp_path)


def test_a_run_without_failures_knows_no_regime() -> None:
    text = {"name": "a", "outages": {"kind": "pools"}, "pools": {"p": {"regime": "starved"}}}
    assert no_failure(Scenario.model_validate(text)).pools["p"] == Pool()


@pytest.mark.parametrize("name", ["us-west-2c-v100-2023-02", "us-east-1f-v100-2023-02"])
def test_a_zone_is_there_as_often_as_it_was_measured(name: str) -> None:
    """Blocks of refill and the spread of the draws leave it within a tenth."""
    zone = find(name)
    assert zone is not None
    pool = zone.pool.model_copy(update={"workers": 32})
    seen = [lived({name: pool}, 2000.0, seed).availability for seed in range(3)]
    assert sum(seen) / 3 == pytest.approx(zone.measured["availability"], rel=0.1)
