"""Tables of links between regions: what is read, what is refused, and where it says so."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.load import ScenarioError, dump, load
from scenarios.outlook import MOST_SIMULATED, look_ahead
from scenarios.preview import in_words, scenario_numbers
from scenarios.problems import ScenarioError as Wrong
from scenarios.regions import links_of
from scenarios.schema import Scenario
from tests.test_architecture import ROOT

TODAY = date(2026, 11, 30)
PUBLIC = ROOT.parent / "shared" / "data"
HEAD = "from,to,rtt_ms,mbps,usd_per_gb\n"
FILE = """name: s
cluster: {replicas: 1, stages: 2}
pools: {u: {workers: 1, region: us}, e: {workers: 1, region: eu}}
network: {regions: {file: zones.csv}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scenario(table: str, text: str = FILE, *overrides: str) -> Scenario:
    Path("zones.csv").write_text(table, encoding="utf-8")
    Path("s.yaml").write_text(text, encoding="utf-8")
    return load("s.yaml", overrides).scenario


def told(found: Scenario) -> list[str]:
    ahead = look_ahead(found, MOST_SIMULATED)
    return in_words("run", scenario_numbers(found, ahead, TODAY))


def test_a_resolved_scenario_holds_the_links_and_needs_the_file_no_more() -> None:
    found = scenario(HEAD + "us,eu,103,,0.02\neu,asia,253,76,\n")
    regions = found.network.regions
    assert regions is not None
    assert (regions.file, list(regions.links)) == (None, ["us", "eu"])
    Path("zones.csv").unlink()
    Path("again.yaml").write_text(dump(found), encoding="utf-8")
    assert load("again.yaml").scenario == found


def test_links_of_the_scenario_win_over_the_file() -> None:
    text = FILE.replace("zones.csv}", "zones.csv, links: {us: {eu: {mbps: 9}}}}")
    regions = scenario(HEAD + "us,eu,103,,0.02\nus,asia,150,,\n", text).network.regions
    assert regions is not None
    assert regions.links["us"]["eu"].mbps == 9
    assert regions.links["us"]["eu"].rtt_ms is None
    assert regions.links["us"]["asia"].rtt_ms == 150


def test_links_that_tcp_and_nics_make_are_told() -> None:
    found = scenario(HEAD + "us,eu,103,,0.02\n", FILE, "network.regions.streams=4", "train=null")
    lines = told(found)
    assert "  link               u -> e: 835 Mb/s, 51.5 ms, $0.02/GB" in lines
    plain = scenario(HEAD, "name: s\ntrain: null\n")
    assert "->" not in "".join(told(plain))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("", "zones.csv:1:1: no column from or a or source"),
        ("from,to\nus,eu\n", "zones.csv:1:1: no column of a delay or a bandwidth"),
        (HEAD, "zones.csv:1:1: no links in it"),
        ("from,to,mbps,mbps\nus,eu,1,2\n", "zones.csv:1:1: two columns of one name (got 'mbps')"),
        (HEAD + "us,eu,103\n", "zones.csv:2:1: 3 cells under 5 columns"),
        (HEAD + "us,eu,1,,\nus,asia,x,,\n", "zones.csv:3:1: rtt_ms must be a number (got 'x')"),
        (HEAD + "us,eu,-1,,\n", "zones.csv:2:1: rtt_ms must be finite and at least 0 (got '-1')"),
        (HEAD + "us,eu,1,nan,\n", "zones.csv:2:1: mbps must be finite and above 0 (got 'nan')"),
        (HEAD + "us,eu,1,0,\n", "zones.csv:2:1: mbps must be finite and above 0 (got '0')"),
        (HEAD + "us,eu,0,,\n", "zones.csv:2:1: needs a bandwidth, or a delay above 0"),
        (HEAD + "us,,1,,\n", "zones.csv:2:1: not the name of a region (got '')"),
        (HEAD + "us,eu,1,,\n\nus,eu,2,,\n", "zones.csv:4:1: us -> eu is told otherwise in line 2"),
        (HEAD + "us,\xff,1,,\n", "zones.csv:2:1: not the name of a region"),
        (HEAD + "us,asia,1,,\n", "s.yaml:4:27: network.regions.links: has no us -> eu"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(table: str, told: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(table)
    assert told in str(error.value)
    if "zones.csv" in told:
        assert str(error.value).splitlines()[0].endswith("zones.csv is no table of links")
        assert len(error.value.problems) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FILE.replace("zones", "none"), "s.yaml:4:27: network.regions.file: no such file"),
        (FILE.replace(", region: eu", ""), "pools.e.region: is needed with network.regions"),
        (
            FILE.replace("network: {regions: {file: zones.csv}}\n", ""),
            "pools.u.region: is used only with network.regions (got 'us')",
        ),
        (
            FILE + "sweep: {arms: {x: {network.regions.file: zones.csv}}}\n",
            "s.yaml:5:42: sweep.arms.x.network.regions.file: is read with the scenario itself",
        ),
    ],
)
def test_keys_that_do_not_go_together(text: str, told: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(HEAD + "us,eu,1,,\n", text)
    assert told in str(error.value)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60), st.integers(0, 100))
def test_a_damaged_table_is_an_error_with_a_line_or_links(noise: bytes, at: int) -> None:
    sound = (HEAD + "us,eu,103,,0.02\neu,asia,253,76,\nasia,us,157,133,\n").encode()
    file = Path("damaged.csv")
    file.write_bytes(sound[:at] + noise + sound[at + len(noise) :])
    try:
        assert links_of(file, {})
    except Wrong as error:
        if not all(problem.at.line for problem in error.problems):
            raise


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="public tables are not here")
def test_public_tables_are_read_as_they_are() -> None:
    aws = links_of(PUBLIC / "dtfm" / "aws_10_regions_delay_bandwidth.csv", {})
    assert aws["Oregon"]["Virginia"][1] == {"rtt_ms": 134.0, "mbps": 790.0}
    assert sum(map(len, aws.values())) == 45
    gcp = links_of(PUBLIC / "skippipe" / "gcp_12_regions_delay_bandwidth.csv", {})
    assert gcp["LA"]["Oregon"][1] == {"rtt_ms": 24.8, "mbps": 1018.17}
    assert sum(map(len, gcp.values())) == 66
    iperf = PUBLIC / "hivemind-multi-cloud" / "iperf_ping_by_pair_2023.csv"
    europe = links_of(iperf, {"set": "experiment-set-1/1-5"})
    assert europe["gc-t4-1"]["gc-t4-20"][1] == {"mbps": 116.0, "rtt_ms": 175.88}
    with pytest.raises(Wrong, match=r"is told otherwise in line \d+; `where` keeps some lines"):
        links_of(iperf, {})
