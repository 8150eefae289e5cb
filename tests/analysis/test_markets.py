"""Markets of a study's scenarios, in words."""

from __future__ import annotations

from typing import Any

from analysis.markets import PoolPrice, fallback_of, market_of

PRICES = {
    "a": PoolPrice("spot", 1.0),
    "b": PoolPrice("spot", 1.1),
    "d": PoolPrice("on_demand", 3.0),
    "r": PoolPrice("reserved", 2.0),
}


def falling(*pools: str, wait_s: float | None = 60.0, losses: int | None = None) -> dict[str, Any]:
    """A scenario in which these fall back on d."""
    told = {"pool": "d", "after_wait_s": wait_s, "after_losses": losses}
    return {"pools": {name: {"fallback": told if name in pools else None} for name in PRICES}}


def test_who_is_on_call_is_not_of_the_market() -> None:
    assert market_of({"a", "b"}, falling(), PRICES) == "spot"
    assert market_of({"d"}, falling(), PRICES) == "on-demand"
    assert market_of({"a", "d"}, falling(), PRICES) == "mix"
    assert market_of({"a", "d"}, falling("a"), PRICES) == "spot"
    assert market_of({"a", "r", "d"}, falling("a"), PRICES) == "mix"


def test_a_fallback_in_words() -> None:
    assert fallback_of(falling(), ()) == ""
    assert fallback_of(falling("a", "b"), ()) == "d, 60 s after it fell vacant"
    words = "d, at once from 3 losses of the slot on"
    assert fallback_of(falling("a", wait_s=None, losses=3), ()) == words
    swept = ["pools.*.fallback.after_wait_s", "pools.*.losses_per_h"]
    words = "d, a swept wait after it fell vacant or at once from 2 losses of the slot on"
    assert fallback_of(falling("a", losses=2), swept) == words
