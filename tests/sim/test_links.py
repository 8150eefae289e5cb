"""Links by region, TCP and NIC; replicas whose hops differ (rule 11; validation 16)."""

from __future__ import annotations

from typing import Any

import pytest

from sim.config import Network, Pool
from sim.job import Job
from sim.network import BITS, GB, Links, links
from sim.pipeline import Crew, StepTimes
from tests.sim.worlds import MB, SKIP, WAIT, gone, job, sizes

TABLE = {"us": {"eu": {"rtt_ms": 103}, "asia": {"rtt_ms": 157, "mbps": 133, "usd_per_gb": 0.08}}}


def network(**regions: Any) -> Network:
    """Three regions; inside one 8 MB/s without latency between stages, as in `worlds`."""
    inside = {"bandwidth_mbps": 64.0, "latency_ms": 0.0}
    store = {"up_mbps": 8.0, "down_mbps": 8.0, "latency_ms": 0.0}
    table = {"links": TABLE, **regions}
    return Network.model_validate({"stages": inside, "store": store, "regions": table})


def of(*pools: dict[str, Any], **regions: Any) -> Links:
    named = {f"p{i}": Pool.model_validate({"workers": 1, **pool}) for i, pool in enumerate(pools)}
    return links(network(**regions), named)


def mbps(table: Links, a: int, b: int) -> float:
    return table.hops[a][b].bytes_per_s * BITS / 1e6


@pytest.mark.parametrize(
    ("streams", "nic_mbps", "measured"), [(1, 6900, 210), (10, 6900, 2110), (40, 6900, 6200)]
)
def test_tcp_carries_its_window_each_round_trip(
    streams: int, nic_mbps: float, measured: float
) -> None:
    """US to EU at 103 ms, iperf of April 2023 (hivemind-multi-cloud)."""
    ends = [{"region": "us", "up_mbps": nic_mbps}, {"region": "eu", "down_mbps": nic_mbps}]
    found = of(*ends, streams=streams)
    assert mbps(found, 0, 1) == pytest.approx(measured, rel=0.12)
    assert mbps(found, 0, 1) == pytest.approx(min(nic_mbps, streams * 21.5 / 0.103))
    assert found.hops[0][1].latency_s == pytest.approx(0.0515)


def test_a_measured_stream_wins_over_the_window_and_the_way_back_is_the_same() -> None:
    found = of({"region": "asia"}, {"region": "us"}, streams=2)
    assert mbps(found, 0, 1) == mbps(found, 1, 0) == pytest.approx(266)
    assert found.hops[0][1].usd_per_byte == pytest.approx(0.08 / GB)


def test_inside_a_region_the_class_holds_and_nics_cap_each_way_apart() -> None:
    line = {"region": "us", "up_mbps": 11.0, "down_mbps": 50.0}
    found = of(line, {"region": "us"})
    assert (mbps(found, 0, 1), mbps(found, 1, 0)) == (11.0, 50.0)
    assert (found.up[0].bytes_per_s, found.down[0].bytes_per_s) == (1e6, 1e6)
    assert found.nics[0] * BITS == 11e6


def test_egress_goes_by_class_and_a_told_price_wins() -> None:
    classes = {"same_zone": 1.0, "same_region": 2.0, "cross_region": 3.0, "internet": 4.0}
    pools = [{"region": region} for region in ("us", "us", "eu", "asia")]
    pools.insert(3, {"region": "eu", "provider": "x"})
    found = of(*pools, usd_per_gb=classes)
    prices = [round(link.usd_per_byte * GB, 9) for link in found.hops[0]]
    assert prices == [1.0, 2.0, 3.0, 4.0, 0.08]


def test_the_way_to_a_store_in_another_region_goes_over_its_link() -> None:
    pools = {"p": Pool(workers=1, region="eu")}
    there = network().model_dump()
    there["store"] |= {"region": "us", "down_mbps": 1e4, "latency_ms": 30.0}
    down = links(Network.model_validate(there), pools).down[0]
    assert down.latency_s == pytest.approx(0.030 + 0.0515)
    assert down.bytes_per_s * BITS / 1e6 == pytest.approx(21.5 / 0.103)


def test_without_regions_and_nics_all_pools_are_alike() -> None:
    pools = {name: Pool(workers=1) for name in "abc"}
    found = links(Network(), pools)
    assert (len(found.hops), set(found.kinds.values())) == (1, {0})


def test_rule_11_a_bypass_goes_over_the_link_of_its_own_pair() -> None:
    """Stages in us, eu, asia: us - eu at 26.1 MB/s, us - asia at 16.6; eu - asia is the class's."""
    pools = [{"region": region} for region in ("us", "eu", "asia")]
    table = {"links": TABLE | {"eu": {"asia": {"rtt_ms": 253}}}}
    net = of(*pools, **table)
    a_sizes = sizes(3, hop_bytes=10 * MB)
    times = StepTimes(a_sizes, net.hops, net.nics)
    crew = Crew((0, 1, 2), (10 * MB, 10 * MB))
    whole = times.of((True,) * 3, (), crew)
    us_eu, eu_asia, us_asia = (net.hops[a][b].seconds(10 * MB) for a, b in ((0, 1), (1, 2), (0, 2)))
    assert whole == pytest.approx((3 + 2 * (us_eu + eu_asia), 3))
    skipped = times.of((True, False, True), (), crew)
    assert skipped == pytest.approx((2 + 2 * us_asia, 2))
    assert us_asia < us_eu + eu_asia


def test_each_direction_has_its_own_bytes_and_its_own_link() -> None:
    line = {"region": "us", "up_mbps": 8.0, "down_mbps": 80.0}  # 1 and 10 MB/s
    net = of(line, {"region": "us"})
    times = StepTimes(sizes(2, hop_bytes=4 * MB), net.hops, net.nics)
    # there 2 MB through the line's 1 MB/s, back 4 MB at the class's 8 MB/s
    with_links_s, _ = times.of((True, True), (), Crew((0, 1), (2 * MB, 4 * MB)))
    assert with_links_s == pytest.approx(2 + 2.0 + 0.5)


def mixed(policy: list[str], script: dict[str, Any] | None = None, **more: Any) -> Job:
    """Replica 0 in us, replica 1 in eu; a spare in asia."""
    pools = {
        "u": Pool(workers=3, region="us"),
        "e": Pool(workers=3, region="eu", up_mbps=4.0),
        "a": Pool(workers=1, region="asia"),
    }
    table = {"links": TABLE | {"eu": {"asia": {"rtt_ms": 253}}}}
    of_job = sizes(hop_bytes=MB)
    return job(script, pools=pools, links=network(**table), of=of_job, policy=policy, **more)


def test_replicas_take_the_time_of_their_own_links() -> None:
    """Hops of 1 MB: at 8 MB/s in us, at 0.5 MB/s through the lines of eu."""
    a_job = mixed(SKIP)
    first = next(a_job.global_steps())
    us_s, eu_s = 4 * (3 + 4 / 8), 4 * (3 + 4 / 0.5)
    assert first.slot_s["boundary"] == pytest.approx(3 * (us_s + eu_s - 2 * 12))
    # eu uploads its 2 MB at 0.5 MB/s, then both fetch 2 MB at 1 MB/s
    assert first.end_s == a_job.healthy_s == pytest.approx(eu_s + 4 + 2)


def test_a_worker_of_another_region_changes_the_hops_of_its_replica() -> None:
    """Slot (0, 1) is taken by the spare in asia, which restores 3 MB at 1 MB/s."""
    script = {"x": gone(0, 1, 1.0)}
    first, second, *_ = mixed(SKIP, script).global_steps()
    assert second.steps.tolist() == [[4] * 3, [4] * 3]
    us_asia_s = 0.0785 + 1 / (133 / 8)
    eu_s = 4 * 8
    expected = 3 * (4 * 4 * us_asia_s + eu_s)
    assert second.slot_s["boundary"] == pytest.approx(expected)
    assert second.usd["egress"] == pytest.approx(4 * 4 * MB * 0.08 / GB)
    assert first.usd["egress"] == 0


def test_under_wait_the_spare_restores_over_its_own_link() -> None:
    far = {"x": gone(0, 1, 1.0)}
    first = next(mixed(WAIT, far, rounds=1).global_steps())
    assert first.steps.tolist() == [[4] * 3, [4] * 3]
    assert first.slot_s["restore"] == pytest.approx(5.0)


def test_replicas_that_compress_have_shorter_hops_of_their_own() -> None:
    """Replica 0 sends 1 MB each way over a hop, replica 1 a tenth: 8 MB/s."""
    of_job = sizes(hop_bytes=MB, ways_bytes=((MB, MB), (MB // 10, MB // 10)))
    first = next(job(of=of_job).global_steps())
    each_s = [4 * 4 * nbytes / (8 * MB) for nbytes in (MB, MB // 10)]
    assert first.slot_s["boundary"] == pytest.approx(3 * sum(each_s))
    assert first.nbytes["boundary"] == 4 * 2 * 2 * (MB + MB // 10)
