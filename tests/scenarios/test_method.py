"""What a scenario says of the method and the model: recipes, codecs, memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios import memory
from scenarios.derive import timed_sizes
from scenarios.load import ScenarioError, dump, load
from scenarios.plan import plan, prepared
from scenarios.schema import Scenario


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scenario(text: str, *overrides: str) -> Scenario:
    Path("s.yaml").write_text(f"name: a\n{text}", encoding="utf-8")
    return load("s.yaml", list(overrides)).scenario


def test_a_published_preset_brings_its_recipe() -> None:
    found = scenario("train: {model: 178m}")
    assert found.train is not None
    assert (found.method.inner_steps, found.train.inner.sequences) == (30, 32)
    assert found.train.inner.lr == 1.38e-3
    large = scenario("train: {model: 512m}")
    assert large.train is not None
    assert (large.method.inner_steps, large.train.inner.warmup_steps) == (15, 500)
    assert large.train.inner.warmup_of(2000) == 500
    assert large.train.inner.warmup_of(100) == 100


def test_what_is_set_stays_and_so_does_what_is_written_out() -> None:
    text = "method: {inner_steps: 7}\ntrain: {model: 512m, inner: {lr: 0.01, warmup: 0.2}}"
    found = scenario(text, "work.micro_batches=1", "train.inner.sequences=3")
    assert found.train is not None
    assert (found.method.inner_steps, found.train.inner.sequences) == (7, 3)
    assert (found.train.inner.lr, found.train.inner.warmup_of(1000)) == (0.01, 200)
    Path("again.yaml").write_text(dump(found), encoding="utf-8")
    assert load("again.yaml").scenario == found
    large = scenario("train: {model: 512m}")
    Path("again.yaml").write_text(dump(large), encoding="utf-8")
    assert load("again.yaml").scenario == large


def test_other_models_have_no_recipe() -> None:
    assert scenario("train: {model: small}").method.inner_steps == 20
    assert scenario("train: null\nwork: {model: 178m}").method.inner_steps == 20


def test_hop_bytes_are_those_of_each_replica() -> None:
    text = "cluster: {replicas: 3}\nmethod: {boundary: {codec: shared, weak_replicas: [1]}}"
    found = scenario(text)
    sizes = timed_sizes(found)
    tokens = sizes.tokens
    assert sizes.hop_bytes == tokens * 2 * 64  # the replicas that send most set the pace
    dense, weak = (tokens * 128, tokens * 128), (tokens * 18, tokens * 16)
    assert sizes.ways_bytes == (dense, weak, dense)
    all_weak = timed_sizes(scenario("method: {boundary: {codec: shared}}"))
    assert all_weak.hop_bytes == all_weak.tokens * 18


def test_keys_that_a_codec_does_not_use_make_no_other_run() -> None:
    found = scenario("method: {boundary: {codec: none, ratio: 0.5, weak_replicas: 2}}")
    assert found == scenario("")
    bound = scenario("method: {boundary: {codec: constrained, ratio: 0.5, weak_replicas: 2}}")
    assert bound.method.boundary.ratio == 0.5
    assert bound.method.boundary.weak_replicas is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9", "must be at most 8, the number of replicas (got 9)"),
        ("[0, 8]", "must be below 8, the number of replicas (got 8)"),
        ("[-1]", "must be at least 0 (got -1)"),
    ],
)
def test_replicas_that_are_not_there_cannot_be_weak(value: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(f"method: {{boundary: {{codec: shared, weak_replicas: {value}}}}}")
    assert message in str(caught.value)
    assert "method.boundary.weak_replicas" in str(caught.value)


def test_more_memory_than_there_is_is_refused_with_the_number_and_a_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = scenario("train: {model: small}")
    assert memory.too_large([small], 2) is None
    assert memory.machine_bytes() > 1e9
    monkeypatch.setattr(memory, "machine_bytes", lambda: int(0.9e9))
    assert memory.too_large([small], 1) is None
    told = memory.too_large([small] * 4, 4)
    assert told is not None
    assert "this machine has 0.9 GB: use fewer --jobs" in told
    monkeypatch.setattr(memory, "machine_bytes", lambda: int(16e9))
    large = scenario("train: {model: 178m}", "work.micro_batches=1")
    told = memory.too_large([large], 1)
    assert told is not None
    assert "GB in one; this machine has 16.0 GB: train a smaller train.model" in told
    assert memory.needed_bytes([scenario("train: null")], 4) == 0


@pytest.mark.parametrize(("source", "each"), [("text", 4), ("jsonl", 4), ("parquet", 12)])
def test_a_large_text_counts_by_the_size_of_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, each: int
) -> None:
    monkeypatch.setattr(memory, "machine_bytes", lambda: int(16e9))
    suffix = source if source != "text" else "txt"
    (folder / "c").mkdir()
    for name, size in ((f"a.{suffix}", 10**9), (f"b.{suffix}", 5 * 10**9), ("c.bin", 10**11)):
        with (folder / "c" / name).open("wb") as file:
            file.truncate(size)  # takes no room
    scenario(f"train: {{model: tiny, data: {{source: {source}, path: c}}}}")
    loaded = load("s.yaml")
    text = prepared(loaded.scenario, loaded.root, with_training=True)
    without = memory.training_bytes(scenario("train: {model: tiny}"), 1)
    assert memory.training_bytes(text, 1) - without == each * 6 * 10**9
    told = memory.too_large([text], 1)
    assert told is not None
    assert f"give less text, it takes {(each * 6e9 + 5e7) / 1e9:.1f} GB of that" in told


def test_what_is_refused_is_refused_before_anything_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scenarios.agenda import RunError
    from scenarios.show import Show
    from scenarios.study import run_all

    scenario("train: {model: 512m}", "work.micro_batches=1")
    loaded = load("s.yaml")
    monkeypatch.setattr(memory, "machine_bytes", lambda: int(16e9))
    with pytest.raises(RunError, match="training needs about") as caught:
        run_all(plan(loaded, folder / "runs"), 1, Show(is_quiet=True))
    assert caught.value.exit_code == 2
    assert not (folder / "runs").exists()


def test_a_ring_adds_dense_updates_only() -> None:
    ring = "network: {replicas: {via: ring}}"
    with pytest.raises(ScenarioError, match=r"s.yaml:2:27: network.replicas.via: a ring adds"):
        scenario(ring)
    assert scenario(ring, "method.outer.name=average").network.replicas.via == "ring"


def test_what_the_clock_knows_of_the_schedule() -> None:
    with pytest.raises(ScenarioError, match=r"extra_in_flight: is used only with schedule: 1f1b"):
        scenario("work: {extra_in_flight: 1}")
    of = timed_sizes(scenario("work: {extra_in_flight: 1, schedule: 1f1b, recompute: true}"))
    assert (of.schedule, of.extra_in_flight, of.recompute_s) == ("1f1b", 1, of.forward_s)
