"""Whatever the bytes: a Loaded or a ScenarioError, whose lines name a place."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios.load import Loaded, ScenarioError, bundled, dump, load

SEEDS = [
    b"""\
name: everything
seed: 3
global_steps: 60 # a comment
cluster: {replicas: 2, stages: 4}
outages:
  kind: per_global_step
  probability: 5e-2
  stages: [1, 2]
recovery: {policy: [skip, idle]}
method: {inner_steps: 5, outer: {name: sparseloco, density: 0.03125, bits: 2}}
train: {model: {d: 32, heads: 2}, data: {source: python-stdlib}, inner: {lr: 3e-3}}
pools:
  "p3.2xlarge": {workers: 10, usd_per_h: 3.06, notice_s: 120}
network: {stages: {bandwidth_mbps: 5000, latency_ms: 0.5}}
expect: {usd: "< 5"}
sweep:
  arms:
    none: {outages.kind: none}
    pools: {outages: {kind: pools}, pools.*.up_h: {law: exponential, mean: 6.0}}
""",
    b"name: a\nextends: s.yaml\n",
    *(path.read_bytes() for name, path in bundled().items() if name != "cost_whatif"),
]
"""Good files; `cost_whatif` has 864 cells, which take seconds each time."""
PIECES = [
    b"{", b"}", b"[", b"]", b":", b": ", b"- ", b"? ", b"\n", b"\n  ", b"\t", b",", b"&a ", b"*a",
    b"!x ", b"!!int ", b"<<: ", b"|", b">", b"'", b'"', b"\\", b"#", b"%YAML 1.1\n", b"---\n",
    b"...\n", b"null", b".nan", b"-.inf", b"1e999", b"0x" + b"f" * 300, b"9" * 400, b"true",
    b"extends: ", b"extends: s.yaml", b"kind: ", b"kind: none", b"law: ", b"name: ", b"\xff",
    b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b'"\\ud800"', b'"\\UFFFFFFFF"', b"sweep: {arms: ",
    b"outages.kind: ", b"*: ", b"a.b.c: ", b"[" * 80, b"- " * 80, b"{a: " * 80, b"/", b"..",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good file with some slices replaced by pieces of YAML, of itself, or by anything."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        source = draw(st.integers(0, max(0, len(text) - 20)))
        piece = draw(
            st.one_of(
                st.sampled_from(PIECES),
                st.just(text[source : source + draw(st.integers(0, 20))]),
                st.binary(max_size=6),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        yield
        os.chdir(before)


LINE = re.compile(r"[^:]*\.yaml:[1-9]\d*:[1-9]\d*: .|override ['\"].*['\"]: .")


def loaded(data: bytes, *overrides: str) -> Loaded | None:
    Path("s.yaml").write_bytes(data)
    try:
        return load("s.yaml", overrides)
    except ScenarioError as error:
        caught = error
    lines = str(caught).splitlines()
    assert 1 <= len(lines) == len(caught.problems)
    for line in lines:
        assert LINE.match(line)
        assert line.isprintable()
        line.encode()
    return None


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    loaded(data)


@settings(max_examples=400, deadline=5000, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_files(data: bytes) -> None:
    result = loaded(data)
    if result is not None:
        again = loaded(dump(result.scenario).encode())
        assert again is not None
        assert again.scenario == result.scenario


WORDS = [
    "name", "seed", "outages", "kind", "script", "probability", "pools", "*", "p?ols", "workers",
    "up_h", "law", "mean", "sweep", "arms", "none", "train", "data", "source", "model", "method",
    "outer", "recovery", "policy", "0", "extends", "expect", "default",
]  # fmt: skip
KEYS = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.text(max_size=3),
    ),
    max_size=5,
).map(".".join)
VALUES = st.one_of(
    st.sampled_from(
        ["none", "null", "1", "[]", "{}", "{kind: script}", "x: y", "> 1", "!x 1", "["]
    ),
    st.text(max_size=6),
)


@settings(max_examples=200)
@given(st.lists(st.tuples(KEYS, st.sampled_from(["=", ""]), VALUES).map("".join), max_size=4))
def test_random_overrides(overrides: list[str]) -> None:
    loaded(SEEDS[0], *overrides)


def test_the_seed_itself_is_good() -> None:
    result = loaded(SEEDS[0])
    assert result is not None
    assert result.cells.keys() == {"none", "pools"}
