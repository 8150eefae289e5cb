"""Price files: YAML, SkyPilot's vms.csv, a series of prices; what is wrong is told as file:line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.catalogue.files import inline
from scenarios.load import ScenarioError
from scenarios.problems import Problem
from scenarios.schema import Scenario
from scenarios.strict_yaml import read as read_yaml

Read = Callable[..., Scenario]

VMS = """InstanceType,vCPUs,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,Zone
p3.2xlarge,8,"V100",1,3.5,1.4,us-west-2,us-west-2a
p3.2xlarge,8,"V100",1,3.5,1.2,us-west-2,us-west-2b
p3.2xlarge,8,V100,1,9.9,0.1,us-east-1,us-east-1a
m5.large,2,,,0.1,0.03,us-west-2,us-west-2a
bad.2xlarge,8,V100,1,-3.5,1.4,us-west-2,us-west-2a
"""
ROW = "{device: A100, on_demand_usd_per_h: 1.5, spot_usd_per_h: 0.5, date: 2026-08, source: bill}"


def problems(read: Read, *told: str, **files: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        read(*told, **files)
    return str(caught.value)


def test_rows_of_ones_own_come_first(read: Read) -> None:
    found = read("{instance: p3.2xlarge}", f"catalogue: {{instances: {{p3.2xlarge: {ROW}}}}}")
    assert (found.pools["p"].usd_per_h, found.work.device) == (1.5, "A100")


def test_a_file_is_read_beside_the_scenario_and_rows_in_it_win(read: Read) -> None:
    own = f"catalogue: {{file: prices.yaml, instances: {{mine: {ROW}}}}}"
    other = ROW.replace("1.5", "7.5")
    text = f"instances:\n  mine: {other}\n  yours: {other}\n"
    assert read("{instance: mine}", own, prices_yaml=text).pools["p"].usd_per_h == 1.5
    assert read("{instance: yours}", own, prices_yaml=text).pools["p"].usd_per_h == 7.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("instances:\n  m: {gpus: 0}\n", "prices.yaml:2:13: catalogue.instances.m.gpus: must be"),
        (
            "instances: {m: {device: A, devise: B}}",
            "prices.yaml:1:28: catalogue.instances.m.devise",
        ),
        ("- 1", "prices.yaml:1:1: must be a map"),
        ("file: other.yaml", "prices.yaml:1:1: file: cannot name another file"),
        ("a: [", "prices.yaml:1:5: not valid YAML"),
        ("instances: 3", "prices.yaml:1:12: catalogue.instances: must be a map (got 3)"),
    ],
)
def test_a_bad_file_is_told_with_its_line(read: Read, text: str, problem: str) -> None:
    assert problem in problems(read, "{}", "catalogue: {file: prices.yaml}", prices_yaml=text)


def test_a_file_that_is_not_there_is_told_where_it_is_named(read: Read) -> None:
    told = problems(read, "{}", "catalogue: {file: nowhere.yaml}")
    assert "s.yaml:4:19: catalogue.file: no such file (got 'nowhere.yaml')" in told


def vms(region: str = "us-west-2") -> str:
    return (
        f"catalogue: {{vms: {{file: vms.csv, cloud: aws, region: {region}, date: 2026-07-01, "
        "notice_s: 120}}"
    )


def test_a_vms_csv_gives_the_list_price_and_the_cheapest_zone(read: Read) -> None:
    found = read("{instance: p3.2xlarge, market: spot}", vms(), vms_csv=VMS)
    assert (found.pools["p"].usd_per_h, found.pools["p"].notice_s) == (1.2, 120)
    row = found.catalogue.instances["p3.2xlarge"]
    assert (row.on_demand_usd_per_h, row.device, row.region) == (3.5, "V100", "us-west-2")
    assert row.source == "SkyPilot catalogue, vms.csv line 3"
    assert set(found.catalogue.instances) == {"p3.2xlarge"}, "only what is mentioned"


@pytest.mark.parametrize(
    ("pool", "region", "text", "problem"),
    [
        (
            "{instance: p3.2xlarge}",
            "mars",
            VMS,
            "catalogue.vms.region: no row of vms.csv is of it (got 'mars'); there are us-east-1,",
        ),
        ("{instance: bad.2xlarge}", "us-west-2", VMS, "vms.csv:6:1: a price must be finite"),
        ("{instance: m5.large}", "us-west-2", VMS, "vms.csv:5:1: m5.large has no whole accel"),
        ("{}", "us-west-2", VMS.replace("Zone", "Price"), "vms.csv:1:1: two columns of one name"),
        ("{}", "us-west-2", "a,b\n1,2\n", "vms.csv:1:1: no column InstanceType, Accelerator"),
        ("{}", "us-west-2", VMS + "x,y\n", "vms.csv:7:1: 2 cells under 8 columns"),
        ("{}", "us-west-2", "", "vms.csv:1:1: no column"),
    ],
)
def test_a_bad_vms_csv_is_told_with_its_line(
    read: Read, pool: str, region: str, text: str, problem: str
) -> None:
    assert problem in problems(read, pool, vms(region), vms_csv=text)


SERIES = "catalogue: {instances: {m: {device: A100, spot_series: spot.csv, source: history}}}"
"""It tells no date, so that of the last price is its."""


def test_a_series_of_prices_is_its_mean_over_time(read: Read) -> None:
    text = "time,price\n2026-01-01T09:00:00Z,9\n2026-01-01T00:00:00Z,1\n2026-01-01T06:00:00Z,3\n"
    found = read("{instance: m, market: spot}", SERIES, spot_csv=text)
    assert found.pools["p"].usd_per_h == pytest.approx((6 * 1 + 3 * 3) / 9)
    row = found.catalogue.instances["m"]
    assert (row.spot_seen_usd_per_h, row.date) == ([1, 9], "2026-01-01")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("time,price\n", "spot.csv:1:1: no prices in it"),
        ("", "spot.csv:1:1: no prices in it"),
        ("1,2\nx,3\n", "spot.csv:2:1: a time must be seconds or like 2026-07-20T12:00:00Z"),
        ("1,2\n2,-3\n", "spot.csv:2:1: a price must be finite and not negative (got '-3')"),
        ("1,2\n2,nan\n", "spot.csv:2:1: a price must be finite"),
        ("1,2,3\n", "spot.csv:1:1: must be time,price (got 3 cells)"),
    ],
)
def test_a_bad_series_is_told_with_its_line(read: Read, text: str, problem: str) -> None:
    assert problem in problems(read, "{instance: m, market: spot}", SERIES, spot_csv=text)


@given(st.binary(max_size=200), st.sampled_from(["prices.yaml", "vms.csv", "spot.csv"]))
def test_a_broken_file_is_read_or_told(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / name).write_bytes(data)
    blocks = {
        "prices.yaml": "{file: prices.yaml}",
        "vms.csv": "{vms: {file: vms.csv, region: x, date: 2026}}",
        "spot.csv": "{instances: {m: {spot_series: spot.csv}}}",
    }
    root, _ = read_yaml(f"catalogue: {blocks[name]}", "s.yaml")
    for problem in inline(root, folder):
        assert isinstance(problem, Problem)
        assert problem.at.source == str(folder / name) or "region" in problem.key
