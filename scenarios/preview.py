"""What a run will be, before it is paid for: arithmetic and a simulation, no torch."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from typing import Any

from analysis.numbers import usd
from scenarios.catalogue.prices import stale
from scenarios.derive import job_config
from scenarios.fits import fullest_stage
from scenarios.outlook import MOST_SIMULATED, Outlook
from scenarios.schema import Scenario
from sim.config import GB, HOUR_S, PerGlobalStep, PoolOutages, on_call
from sim.fate import expected_availability
from sim.job import Job
from sim.network import BITS, Link, Links
from sim.networks import Peers
from sim.strikes import expected_degraded_share
from sim.via import Billed, usd_of
from trainer import sizes as trainer_sizes


def scenario_numbers(scenario: Scenario, ahead: Outlook, today: date) -> dict[str, Any]:
    """Derived numbers of one scenario; hours and dollars are simulated from its inputs."""
    job = Job(job_config(scenario))
    sizes, model = job.config.sizes, scenario.timed_model()
    full = (True,) * job.S
    crews = job.terms.crews(job.roster.kinds)
    step_s, without_links_s = max(job.times.of(full, (), crew) for crew in crews)
    crossed: Billed = Counter()
    for crew, count in crews.items():
        crossed.update(job.terms.carried(crew, full, count * job.config.inner_steps))
    round_tokens = job.R * job.config.inner_steps * sizes.tokens
    bought = on_call(scenario.pools)
    hired = [pool for name, pool in job.config.pools.items() if name not in bought]
    fit = fullest_stage(scenario)
    usd_per_s = sum((pool.workers or 0) * pool.usd_per_h for pool in hired) / HOUR_S
    synced = job.terms.via.billed(job.terms.everybody(job.roster.kinds))
    healthy_bytes = {
        "hop": sizes.hop_bytes,
        "boundary": crossed.total(),
        "sync": synced.total(),
    }
    healthy_usd = job.healthy_s * usd_per_s + (usd_of(crossed) + usd_of(synced))
    return {
        "workers": sum(pool.workers or 0 for pool in hired),
        "on_call": {name: job.config.pools[name].workers for name in sorted(bought)},
        "slots": job.R * job.S,
        "timed_parameters": sum(trainer_sizes.parameters(model, job.S, scenario.method.boundary)),
        "proxy": scenario.is_proxy,
        "device_memory": fit and str(fit),
        "tokens_per_global_step": round_tokens,
        "tokens": round_tokens * scenario.global_steps,
        "inner_step_s": step_s,
        "inner_step_without_links_s": without_links_s,
        "global_step_s": job.healthy_s,
        "bytes_per_hop_and_inner_step": healthy_bytes["hop"],
        "boundary_bytes_per_global_step": healthy_bytes["boundary"],
        "sync_bytes_per_global_step": healthy_bytes["sync"],
        "no_failure": {
            "hours": job.healthy_s * scenario.global_steps / HOUR_S,
            "usd": healthy_usd * scenario.global_steps,
        },
        "checkpoint": None if job.checkpoints is None else job.checkpoints.told(),
        "links": told_links(scenario, job.links),
        "expected": expected(scenario),
        "simulated": simulated(ahead),
        "stalled": ahead.stalled,
        "stale_prices": stale(scenario.pools, scenario.catalogue, today),
    }


def told_links(scenario: Scenario, links: Links) -> list[dict[str, Any]]:
    """What regions, TCP and NICs make of the links, by the pools at their ends; else nothing."""
    if scenario.network.regions is None and len(links.hops) < 2 and math.isinf(links.nics[0]):
        return []
    names = list(links.kinds)[: len(links.hops)]
    are_peers = isinstance(scenario.network.replicas, Peers)
    ends: list[tuple[str, str, Link]] = []
    for table, what in ((links.hops, ""), (links.peers, " of another replica")):
        is_used = scenario.cluster.stages > 1 if table is links.hops else are_peers
        for a, row in zip(names, table, strict=True) if is_used else ():
            ends += [(a, b + what, link) for b, link in zip(names, row, strict=True)]
    ends += [(name, "store", link) for name, link in zip(names, links.up, strict=True)]
    ends += [("store", name, link) for name, link in zip(names, links.down, strict=True)]
    return [
        {
            "from": a,
            "to": b,
            "latency_ms": 1e3 * link.latency_s,
            "mbps": link.bytes_per_s * BITS / 1e6,
            "usd_per_gb": link.usd_per_byte * GB,
        }
        for a, b, link in ends
    ]


def expected(scenario: Scenario) -> dict[str, float]:
    """What theory says of the outages, before any draw."""
    outages = scenario.outages
    if isinstance(outages, PerGlobalStep):
        return {
            "degraded_share": expected_degraded_share(outages),
            "degraded_share_of_this_run": expected_degraded_share(
                outages, min(scenario.global_steps, MOST_SIMULATED)
            ),
        }
    if isinstance(outages, PoolOutages):
        pools = scenario.resolved_pools()
        shares = {name: expected_availability(pool) for name, pool in pools.items()}
        return {f"availability_{name}": a for name, a in shares.items() if a is not None}
    return {}


def simulated(ahead: Outlook) -> dict[str, float]:
    """Hours, dollars, outages of this seed's stream; a long run's are scaled from its start."""
    told = ("global_steps", "hours", "usd", "outages", "degraded_share")
    return {key: getattr(ahead, key) for key in told}


# --- in words -----------------------------------------------------------------------------------


def in_words(cell: str, n: dict[str, Any]) -> list[str]:
    """Lines for a person."""
    simulated_run, healthy = n["simulated"], n["no_failure"]
    proxy = " (proxy: another model is trained than timed)" if n["proxy"] else ""
    more = "".join(f", {workers} of {name} on call" for name, workers in n["on_call"].items())
    lines = [
        f"{cell}",
        f"  workers            {n['workers']} for {n['slots']} slots{more}",
        f"  timed model        {n['timed_parameters'] / 1e6:.2f}M parameters{proxy}",
        f"  tokens             {n['tokens_per_global_step']:,} a global step, "
        f"{n['tokens']:,} in all",
        f"  inner step         {n['inner_step_s']:.4g} s, of it links "
        f"{n['inner_step_s'] - n['inner_step_without_links_s']:.3g} s",
        f"  global step        {n['global_step_s']:.4g} s when nothing fails",
        f"  bytes              {size(n['bytes_per_hop_and_inner_step'])} a hop and inner step, "
        f"each way; a round: {size(n['boundary_bytes_per_global_step'])} boundaries, "
        f"{size(n['sync_bytes_per_global_step'])} exchange",
        f"  no failure         {healthy['hours']:.4g} h, {usd(healthy['usd'])}",
    ]
    if n["device_memory"]:
        lines.append(f"  device memory      {n['device_memory']}")
    if n["checkpoint"] is not None:
        lines.append(
            f"  checkpoint         every {n['checkpoint']['every_global_steps']} global steps "
            f"({n['checkpoint']['rule']}), {n['checkpoint']['cost_s']:.4g} s each"
        )
    for link in n["links"]:
        mbps = f"{link['mbps']:,.0f}" if link["mbps"] >= 100 else f"{link['mbps']:.3g}"
        lines.append(
            f"  link               {link['from']} -> {link['to']}: {mbps} Mb/s, "
            f"{link['latency_ms']:.3g} ms, ${link['usd_per_gb']:.3g}/GB"
        )
    for key, value in n["expected"].items():
        lines.append(f"  expected           {key.replace('_', ' ')} {value:.2%}")
    lines.append(
        f"  simulated          {simulated_run['hours']:.4g} h, {usd(simulated_run['usd'])}, "
        f"{simulated_run['outages']:.0f} outages, degraded share "
        f"{simulated_run['degraded_share']:.2%} (this seed)"
    )
    cautions = [*n["stale_prices"], *([n["stalled"]] if n["stalled"] else [])]
    lines += [f"  caution            {text}" for text in cautions]
    return lines


def size(nbytes: float) -> str:
    """Bytes for a person, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if nbytes < 1000 or unit == "TB":
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    raise AssertionError("the last unit takes everything")
