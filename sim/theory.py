"""Closed forms that the engine is held against (docs/validation.md). Pure.

Textbook results: renewal and birth-death processes, Poisson's equation for the scatter of a time
mean, the pipeline of GPipe (arXiv 1811.06965).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.laws import Weibull


def availability(up: float, outage: float) -> float:
    """Share of the time that a worker is up in the long run."""
    return up / (up + outage)


def down_shares(workers: int, up: float, repair: float, at_once: int) -> NDArray[np.float64]:
    """[N + 1] share of the time in which k workers are down: the machine-repairman chain.

    Exponential times up and repairs, at most `at_once` repairs side by side. In balance the flow up
    from k, (N - k)/up, equals the flow down from k + 1, min(k + 1, r)/repair. With r = N it is the
    binomial.
    """
    weights = [1.0]
    for k in range(workers):
        weights.append(weights[-1] * (workers - k) / up * repair / min(k + 1, at_once))
    return np.array(weights) / sum(weights)


def mean_down(workers: int, up: float, repair: float, at_once: int) -> float:
    """Workers that are down on average."""
    return float(down_shares(workers, up, repair, at_once) @ np.arange(workers + 1))


def down_scatter(workers: int, up: float, repair: float, at_once: int) -> float:
    """Variance of the mean number down over a long time, x that time: 2 <f, -Q^-1 f>.

    Q is the chain's generator, f the number down less its mean (Poisson's equation).
    """
    n = np.arange(workers + 1)
    shares = down_shares(workers, up, repair, at_once)
    rises, falls = (workers - n[:-1]) / up, np.minimum(n[1:], at_once) / repair
    q = np.diag(rises, 1) + np.diag(falls, -1)
    q -= np.diag(q.sum(axis=1))
    f = n - shares @ n
    g = np.linalg.lstsq(-q, f, rcond=None)[0]
    return float(2 * (shares * f) @ (g - shares @ g))


def gpipe_s(micro_batches: int, stage_s: Sequence[float]) -> float:
    """One direction of a pipeline of unequal stages: sum + (m - 1) max."""
    return sum(stage_s) + (micro_batches - 1) * max(stage_s)


def gpipe_recompute_s(
    micro_batches: int, stages: int, forward_s: float, backward_s: float
) -> float:
    """GPipe that computes activations again, before the gradient arrives; equal stages."""
    each_s = 2 * forward_s + backward_s
    return micro_batches * each_s + (stages - 1) * (forward_s + backward_s)


LATENCY_UNDER_1F1B_MS = {
    **{(8, 5): 410.0, (8, 20): 650.0, (8, 100): 1930.0},
    **{(16, 5): 710.0, (16, 20): 1130.0, (16, 100): 3370.0},
    **{(32, 5): 1310.0, (32, 20): 2090.0, (32, 100): 6250.0},
}
"""Milliseconds of a step of 1F1B by (micro-batches, ms a hop): S 4, forward 10, backward 20 ms. No
formula: the recursion, worked out apart from this code."""


def bubble_share(micro_batches: int, stages: int) -> float:
    """(S - 1)/(m + S - 1) of the total time, equal stages."""
    return (stages - 1) / (micro_batches + stages - 1)


def ring_all_reduce_s(workers: int, nbytes: float, bytes_per_s: float, latency_s: float) -> float:
    """2(n - 1) passes of an n-th part."""
    return 2 * (workers - 1) * (nbytes / workers / bytes_per_s + latency_s)


def all_gather_s(workers: int, nbytes: float, bytes_per_s: float, latency_s: float) -> float:
    """Every worker gets n - 1 updates, one after another."""
    return (workers - 1) * (nbytes / bytes_per_s + latency_s)


def sparseloco_bytes(parameters: float, density: float, index_bits: int, value_bits: int) -> float:
    """Of an upload: an index and a value for each that is kept (arXiv 2508.15706)."""
    return parameters * density * (index_bits + value_bits) / 8


def compute_share(compute_s: float, sync_s: float) -> float:
    """Of the time of a round that computes and then exchanges."""
    return compute_s / (compute_s + sync_s)


def first_of_exponential(t: float, workers: int, mean: float) -> float:
    """P(the first of N losses has come by t)."""
    return -math.expm1(-workers * t / mean)


def first_of_weibull(t: float, workers: int, scale: float, shape: float) -> float:
    """P(the first of N losses has come by t): Weibull with the scale over N^(1/shape)."""
    return -math.expm1(-workers * (t / scale) ** shape)


def shock_by(t: float, every: float) -> float:
    """P(at least one shock by t)."""
    return -math.expm1(-t / every)


def worker_rate(up: float, every: float, share: float) -> float:
    """Losses per time up of a worker with a law of its own and shocks: l + q z."""
    return 1 / up + share / every


def largest_of_gamma(n: int, draws: int, power: int = 1) -> float:
    """E[max^power] of n sums of so many exponential times of mean 1; one draw: mean H_n.

    The integral of power t^(power - 1) (1 - F(t)^n), F of an Erlang law, by the trapezoidal rule.
    """
    t = np.linspace(0.0, 60.0 + 4 * draws, 400_001)
    terms = (t**k / math.factorial(k) for k in range(draws))
    below = 1 - np.exp(-t) * sum(terms)
    inside = power * t ** (power - 1) * (1 - below**n)
    return float(((inside[1:] + inside[:-1]) / 2 * np.diff(t)).sum())


def fallen_back(up: float, outage: float, wait: float, step: float) -> float:
    """Share of its time in which a lone slot has another market's worker: renewal reward.

    Exponential times up and outages Y. One that lasts longer than the wait lasts as long again as
    any: E[(Y - w)+] = P(Y > w) E[Y]. A worker is given back at a boundary, half a step late.
    """
    return math.exp(-wait / outage) * (outage + step / 2) / (up + outage)


def fallen_back_scatter(up: float, outage: float, wait: float) -> float:
    """Variance of that share times the time it is taken over: Var(R - s C) / E[C].

    C is a cycle of X up and Y away, R = (Y - w)+, s = E[R] / E[C].
    """
    longer, cycle = math.exp(-wait / outage), up + outage
    share = longer * outage / cycle
    variance_r = longer * (2 - longer) * outage**2
    covariance = longer * outage * (outage + wait)  # of R and Y
    return (variance_r - 2 * share * covariance + share**2 * (up**2 + outage**2)) / cycle


def young_interval(cost: float, mean: float) -> float:
    """Work between checkpoints of a job that fails every `mean`: sqrt(2CM) (Young 1974)."""
    return math.sqrt(2 * cost * mean)


def daly_interval(cost: float, mean: float) -> float:
    """sqrt(2CM)(1 + x/3 + x^2/9) - C with x = sqrt(C/2M); M where C >= 2M (Daly 2006)."""
    if cost >= 2 * mean:
        return mean
    x = math.sqrt(cost / (2 * mean))
    return math.sqrt(2 * cost * mean) * (1 + x / 3 + x**2 / 9) - cost


def restart_time(work: float, cost: float, restart: float, mean: float) -> float:
    """Expected time over work: M e^(R/M) (e^((tau + C)/M) - 1)/tau (Daly 2006).

    Exponential failures that may strike work, checkpoint and restart alike.
    """
    return mean * math.exp(restart / mean) * math.expm1((work + cost) / mean) / work


def restart_ettr(work: float, cost: float, restart: float, mean: float) -> float:
    """First order in failures: (1 - (R + tau/2)/M)/(1 + C/tau) (after arXiv 2410.21680)."""
    return (1 - (restart + work / 2) / mean) / (1 + cost / work)


def without_checkpoints(work: float, mean: float) -> float:
    """Expected time of work that starts anew after each failure: M (e^(W/M) - 1)."""
    return mean * math.expm1(work / mean)


def renewal_time(work: float, cost: float, restart: float, up: Weibull) -> float:
    """Expected time over work of a lone slot whose lives have any law: renewal reward.

    A life of length L stores floor(L/(tau + C)) segments, so that their mean number is the sum of
    P(L > k (tau + C)).
    """
    segment = work + cost
    lasting = [math.exp(-((k * segment / up.scale) ** up.shape)) for k in range(1, 2000)]
    return (up.mean + restart) / (work * math.fsum(lasting))
