"""What crosses a boundary, and what that asks of the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.boundary import Projected, Residual, Uncompressed, basis, codec, of_replica
from trainer.config import Boundary, Model
from trainer.model import Pipeline, initialise

MODEL = Model(d=16, layers=5, heads=2, ffn=24, seq=7, vocab=50)
STAGES = 4
SEQUENCES = torch.randint(0, MODEL.vocab, (3, MODEL.seq + 1), generator=torch.manual_seed(0))
LIVE = [[0, 1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 3]]
BOUND = ("constrained", "shared", "independent")


def bound(name: Any, ratio: float = 0.25) -> Boundary:
    return Boundary(codec=name, ratio=ratio)


def built(boundary: Boundary, stages: int = STAGES, model: Model = MODEL) -> Pipeline:
    """A model whose weights are large enough for the boundary to matter."""
    made = Pipeline(model, stages, codec(model, boundary, stages, seed=3))
    initialise(made, 5, model.layers)
    with torch.no_grad():
        for flat in made.flat:
            flat.mul_(6.0)
    return made


def named(model: Pipeline) -> dict[str, Tensor]:
    return {n: p for s in range(len(model.stages)) for n, p in model.named(s).items()}


def unbound(model: Pipeline) -> Pipeline:
    """The model of codec none that computes the same: W = U B, and the table in the embedding."""
    free = built(Boundary(), len(model.stages)).to(next(model.parameters()).dtype)
    residual = model.codec.residual
    assert residual.table is not None
    with torch.no_grad():
        for s, u in enumerate(residual.bases):
            for name, tensor in model.named(s).items():
                value = tensor.clone()
                if u is not None and name.endswith(("w_o", "w_down")):
                    value = u @ value
                if name == "embed":
                    value = residual.table + (value if u is None else value @ u.T)
                free.named(s)[name].copy_(value)
    return free


def widened(model: Pipeline) -> Pipeline:
    """The same in float64, with projections that are orthonormal to that precision."""
    link, old = model.codec, model.codec.residual
    wide: dict[int, Tensor] = {}

    def double(u: Tensor) -> Tensor:
        if id(u) not in wide:
            q, r = torch.linalg.qr(u.double())
            wide[id(u)] = q * r.diagonal().sign()
        return wide[id(u)]

    bases = tuple(None if u is None else double(u) for u in old.bases)
    residual = Residual(bases, None if old.table is None else old.table.double())
    if isinstance(link, Projected):
        model.codec = replace(link, residual=residual, bases=tuple(map(double, link.bases)))
    elif isinstance(link, Uncompressed):
        model.codec = replace(link, residual=residual)
    for stage, u in zip(model.stages, bases, strict=True):
        stage.basis = u
    return model.double()


def gradients(model: Pipeline, live: list[int]) -> tuple[float, dict[str, Tensor]]:
    loss = model.loss(SEQUENCES, live)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), {n: p.grad for n, p in named(model).items() if p.grad is not None}


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize(
    ("name", "ratio"),
    [*((n, r) for n in ("constrained", "shared") for r in (1e-3, 0.25, 1.0)), ("independent", 1.0)],
)
def test_it_is_the_uncompressed_model_of_the_same_weights_gradients_included(
    name: str, ratio: float, live: list[int]
) -> None:
    """Of `independent` that is only so at full width: there no projection loses anything.

    In float64, to the rounding of that.
    """
    model = widened(built(bound(name, ratio)))
    free = unbound(model)
    loss, found = gradients(model, live)
    expected_loss, expected = gradients(free, live)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    for s, u in enumerate(model.codec.residual.bases):
        for tensor in model.shapes[s]:
            if tensor not in expected:
                assert tensor not in found
                continue
            like = expected[tensor]
            if u is not None and tensor.endswith(("w_o", "w_down")):
                like = u.T @ like
            if u is not None and tensor == "embed":
                like = like @ u
            torch.testing.assert_close(found[tensor], like, rtol=1e-8, atol=1e-12)


def test_independent_projections_lose_what_earlier_stages_wrote() -> None:
    model = built(bound("independent"))
    free = unbound(model)
    assert abs(model.loss(SEQUENCES, [0, 1, 2, 3]) - free.loss(SEQUENCES, [0, 1, 2, 3])) > 1e-2


def test_shared_and_constrained_are_one_model() -> None:
    cut, whole = built(bound("shared")), built(bound("constrained"))
    assert all(torch.equal(a, b) for a, b in zip(cut.flat, whole.flat, strict=True))
    for live in LIVE:
        (loss, mine), (other_loss, other) = gradients(cut, live), gradients(whole, live)
        assert loss == pytest.approx(other_loss, rel=1e-6)
        for name, gradient in mine.items():
            torch.testing.assert_close(gradient, other[name], rtol=1e-3, atol=2e-6)
        for model in (cut, whole):
            model.zero_grad()


def test_what_a_stage_writes_lies_in_its_subspace() -> None:
    """So the first boundary loses nothing under either codec, and none does under shared."""
    for name in ("shared", "independent"):
        model = built(bound(name))
        residual = model.codec.residual
        x0 = residual.x0(SEQUENCES[:, :-1])
        assert x0 is not None
        x = model.stages[0](SEQUENCES[:, :-1], x0)
        for s in (0, 1, 2):
            u = residual.bases[s]
            assert u is not None
            entered = x0 if s == 0 else x
            x = x if s == 0 else model.stages[s](x)
            written = x - entered
            torch.testing.assert_close(written @ u @ u.T, written, rtol=1e-4, atol=1e-5)


def test_a_bypass_under_shared_forwards_the_numbers_unchanged() -> None:
    link = codec(MODEL, bound("shared"), STAGES, 0)
    c = torch.randn(2, 3, 4)
    assert link.bypass(c, 0, 1) is c
    assert link.bypass(link.bypass(c, 0, 1), 1, 2) is c


def test_a_bypass_under_independent_is_a_decode_and_an_encode() -> None:
    link = codec(MODEL, bound("independent"), STAGES, 0)
    c, x0 = torch.randn(2, 3, 4), torch.randn(2, 3, 16)
    there = link.encode(link.decode(c, x0, 0), x0, 1)
    torch.testing.assert_close(link.bypass(c, 0, 1), there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ratio", [0.125, 0.5])
def test_a_further_boundary_keeps_k_over_d_of_the_energy(ratio: float) -> None:
    """The mean of |U_b^T U_a c|^2 / |c|^2 over draws of both; its spread there is about 10 %."""
    wide = Model(d=64, layers=3, heads=1, ffn=8, seq=4, vocab=3)
    kept = []
    for seed in range(30):
        link = codec(wide, bound("independent", ratio), 3, seed)
        c = torch.randn(40, 1, round(ratio * 64), generator=torch.manual_seed(seed))
        kept.append((link.bypass(c, 0, 1).square().sum() / c.square().sum()).item())
    assert np.mean(kept) == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize("name", ["none", "constrained", "shared", "independent"])
def test_what_is_encoded_has_the_width_and_the_bytes_of_the_arithmetic(name: str) -> None:
    link = codec(MODEL, bound(name), STAGES, 0)
    cuts = name in ("shared", "independent")
    x, x0 = torch.randn(2, 7, 16, requires_grad=True), torch.randn(2, 7, 16)
    c = link.encode(x, x0 if name != "none" else None, 1)
    assert c.shape == (2, 7, 4 if cuts else 16)
    back = torch.autograd.grad(link.decode(c, x0, 1).sum(), c)[0]
    ids = 2 * 14 if cuts else 0
    assert link.bytes(tokens=14) == (2 * c.numel() + ids, 2 * back.numel())
    assert isinstance(link, Projected if cuts else Uncompressed)


def test_the_bound_weights_are_slices_of_the_free_ones() -> None:
    free = Pipeline(MODEL, STAGES, codec(MODEL, Boundary(), STAGES, 0))
    initialise(free, 5, MODEL.layers)
    whole = named(free)
    for name in BOUND:
        model = Pipeline(MODEL, STAGES, codec(MODEL, bound(name), STAGES, 0))
        initialise(model, 5, MODEL.layers)
        for tensor, value in named(model).items():
            corner = whole[tensor][tuple(slice(n) for n in value.shape)]
            assert torch.equal(value, corner), tensor
            narrow = name != "independent" or not tensor.startswith(("layers.3", "layers.4"))
            bound_here = tensor == "embed" or tensor.endswith(("w_o", "w_down"))
            assert (value.shape != whole[tensor].shape) == (bound_here and narrow)


def test_bases_are_orthonormal_nested_and_drawn_from_seed_and_boundary() -> None:
    wide, narrow = basis(40, 12, 7, 0), basis(40, 5, 7, 0)
    assert wide.shape == (40, 12)
    torch.testing.assert_close(wide.T @ wide, torch.eye(12), rtol=0, atol=1e-6)
    torch.testing.assert_close(wide[:, :5], narrow, rtol=0, atol=1e-6)
    assert torch.equal(basis(40, 5, 7, 0), narrow)
    for other in (basis(40, 5, 8, 0), basis(40, 5, 7, 1)):
        assert (other - narrow).abs().max() > 0.1


def test_the_table_is_standard_normal_and_equal_in_every_process_and_codec() -> None:
    wide = MODEL.model_copy(update={"vocab": 2000})
    tables = [codec(wide, bound(name), STAGES, 0).residual.table for name in BOUND]
    first = tables[0]
    assert first is not None
    assert all(table is not None and torch.equal(table, first) for table in tables)
    assert first.mean().item() == pytest.approx(0, abs=0.02)
    assert first.std().item() == pytest.approx(1, rel=0.02)
    assert codec(wide, Boundary(), STAGES, 0).residual.table is None


@pytest.mark.parametrize("name", BOUND)
def test_one_stage_has_no_boundary(name: str) -> None:
    model = built(bound(name), stages=1)
    free = unbound(model)
    assert model.loss(SEQUENCES, [0]).item() == pytest.approx(
        free.loss(SEQUENCES, [0]).item(), rel=1e-5
    )


def test_a_strong_replica_loses_nothing_under_independent() -> None:
    boundary = Boundary(codec="independent", ratio=0.25, weak_replicas=1)
    weak = codec(MODEL, boundary, STAGES, 3)
    assert of_replica(weak, MODEL, boundary, 0) is weak
    strong = of_replica(weak, MODEL, boundary, 1)
    assert strong.residual is weak.residual
    assert strong.bytes(1) == (32, 32)
    model = built(boundary)
    free = unbound(model)
    model.codec = strong
    for live in LIVE:
        expected = free.loss(SEQUENCES, live).item()
        assert model.loss(SEQUENCES, live).item() == pytest.approx(expected, rel=1e-5)


# --- survivors --------------------------------------------------------------------------------


def test_survivors_write_more_while_stages_are_skipped() -> None:
    """layers / live layers: five over four stages are 1, 1, 1, 2."""
    for name in ("none", "shared"):
        model = built(bound(name))
        scaled = Pipeline(MODEL, STAGES, codec(MODEL, bound(name), STAGES, 3, rescale=True))
        for mine, flat in zip(scaled.flat, model.flat, strict=True):
            mine.copy_(flat)
        whole = [0, 1, 2, 3]
        assert torch.equal(scaled.loss(SEQUENCES, whole), model.loss(SEQUENCES, whole))
        for live, gain in (([0, 2, 3], 5 / 4), ([0, 3], 5 / 3)):
            loss = scaled.loss(SEQUENCES, live).item()
            assert loss != pytest.approx(model.loss(SEQUENCES, live).item(), rel=1e-4)
            larger = built(bound(name))
            with torch.no_grad():
                for tensor, value in named(larger).items():
                    if tensor.endswith(("w_o", "w_down")):
                        value.mul_(gain)
            assert loss == pytest.approx(larger.loss(SEQUENCES, live).item(), rel=1e-5)
