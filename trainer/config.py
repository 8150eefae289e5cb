"""What is trained and how: model, data, inner optimiser, outer method, boundary. Torch-free."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trainer.sources import BinData as BinData
from trainer.sources import Data as Data
from trainer.sources import JsonlData as JsonlData
from trainer.sources import ParquetData as ParquetData
from trainer.sources import StdlibData as StdlibData
from trainer.sources import TextData as TextData
from trainer.sources import WikiData as WikiData
from trainer.strict import Strict as Strict


class Model(Strict):
    """Shape of a Llama-style decoder: RMSNorm, RoPE, SwiGLU, no biases, untied head.

    Where heads share keys and values it can be timed, not trained.
    """

    d: int = Field(64, ge=2, description="Width of the residual stream.")
    layers: int = Field(4, ge=1, description="Decoder blocks, cut into contiguous stages.")
    heads: int = Field(4, ge=1, description="Attention heads; d must be a multiple of them.")
    kv_heads: int | None = Field(
        None, ge=1, description="Heads of keys and values, which so many heads share; null: heads."
    )
    ffn: int = Field(176, ge=1, description="Width of the SwiGLU feed-forward.")
    seq: int = Field(64, ge=2, description="Tokens in a training sequence.")
    vocab: int = Field(32_000, ge=2, description="Vocabulary; a trained model takes its data's.")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Model:
        if self.d % self.heads or (self.d // self.heads) % 2:
            raise ValueError(
                f"d / heads must be an even whole number (got d {self.d}, heads {self.heads})"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise ValueError(
                f"heads must be a multiple of kv_heads (got {self.heads} and {self.kv_heads})"
            )
        return self

    @property
    def kv_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.d // self.heads * (self.kv_heads or self.heads)


PRESETS: dict[str, Model] = {
    "tiny": Model(d=64, layers=4, heads=4, ffn=176, seq=64),
    "small": Model(d=128, layers=8, heads=4, ffn=352, seq=128),
    "base": Model(d=256, layers=8, heads=8, ffn=704, seq=256),
    "178m": Model(d=1024, layers=9, heads=8, ffn=2688, seq=2048),
    "512m": Model(d=1536, layers=12, heads=12, ffn=5440, seq=2048),
    "1b": Model(d=2048, layers=16, heads=32, kv_heads=8, ffn=8192, seq=8192, vocab=128_256),
    "8b": Model(d=4096, layers=32, heads=32, kv_heads=8, ffn=14_336, seq=8192, vocab=128_256),
    "13b": Model(d=5120, layers=40, heads=40, ffn=13_824, seq=4096),
    "70b": Model(d=8192, layers=80, heads=64, kv_heads=8, ffn=28_672, seq=8192, vocab=128_256),
}
"""Named shapes: three for the CPU, the published 178m and 512m, and four to be timed: Llama 3 (8b
and 70b: arXiv 2407.21783; 1b: that of 3.2 with a head of its own), Llama 2 (13b: arXiv 2307.09288).
"""

ModelSpec = Literal["tiny", "small", "base", "178m", "512m", "1b", "8b", "13b", "70b"] | Model

RECIPES: dict[str, dict[str, Any]] = {
    "178m": {"sequences": 32, "lr": 1.38e-3},
    "512m": {"sequences": 32, "lr": 1e-3, "warmup_steps": 500},
}
"""Published `train.inner` of a preset: where a scenario names it, these stand for the keys that it
leaves out. All other published values are the defaults already."""
RECIPE_INNER_STEPS = {"178m": 30, "512m": 15}
"""Published H of a preset, for `method.inner_steps` where a scenario leaves it out."""


def shape(spec: ModelSpec) -> Model:
    """The shape a name stands for, or the shape itself."""
    return PRESETS[spec] if isinstance(spec, str) else spec


class Inner(Strict):
    """The local AdamW steps of each replica."""

    sequences: int = Field(2, ge=1, description="Sequences a replica sees in one inner step.")
    lr: float = Field(3e-3, gt=0, description="Peak learning rate.")
    beta1: float = Field(0.9, ge=0, lt=1, description="Decay of the first moment.")
    beta2: float = Field(0.95, ge=0, lt=1, description="Decay of the second moment.")
    eps: float = Field(1e-8, gt=0, description="Added to the root of the second moment.")
    weight_decay: float = Field(0.1, ge=0, description="Decoupled decay, matrices only.")
    clip: float = Field(1.0, gt=0, description="Gradient norm of a replica's live stages.")
    warmup: float = Field(0.1, ge=0, lt=1, description="Share of all inner steps to warm up.")
    warmup_steps: int | None = Field(
        None, ge=0, description="Inner steps to warm up, instead of a share of them."
    )
    final: float = Field(0.1, ge=0, le=1, description="Cosine ends at this share of the peak.")

    def warmup_of(self, total: int) -> int:
        """Inner steps to warm up of `total`; a job that is shorter warms up all the way."""
        if self.warmup_steps is not None:
            return min(self.warmup_steps, total)
        return round(self.warmup * total)


class OnReturn(Strict):
    """What a slot that joins starts with beside the anchor."""

    adam: Literal["zero", "keep", "peer"] = Field(
        "zero",
        description="Moments and step counters: fresh; its own, if it is the same worker; or those "
        "of another replica.",
    )
    error_feedback: Literal["zero", "keep"] = Field(
        "zero", description="Of SparseLoCo: fresh, or its own if it is the same worker."
    )


class Train(Strict):
    """The model that really learns.

    A published preset brings its recipe along: see RECIPES.
    """

    model: ModelSpec = Field("tiny", description="A preset's name or a shape.")
    data: Data = Field(default_factory=StdlibData, description="The text to learn.")
    inner: Inner = Field(default_factory=Inner, description="Local optimiser.")
    eval_every: int = Field(5, ge=1, description="Global steps between evaluations.")
    eval_sequences: int = Field(256, ge=1, description="Held-out sequences of an evaluation.")
    rescale_survivors: bool = Field(
        False,
        description="While stages are skipped, live blocks write layers / live layers times more.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: the GPU if torch sees one, in bf16; else the CPU, in fp32."
    )
    on_return: OnReturn = Field(
        default_factory=OnReturn, description="What a slot that joins starts with."
    )
    jitter: float = Field(
        0.0,
        ge=0,
        le=0.1,
        description="Relative size of a random change of the initial weights: with 1e-5 the same "
        "run takes another path, which shows how far luck alone moves a loss.",
    )
    stage_drop: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Chance of an inner step to leave an inner stage out on purpose.",
    )

    @model_validator(mode="before")
    @classmethod
    def _recipe(cls, given: Any) -> Any:
        """Put a published preset's recipe where `inner` leaves keys out."""
        if not isinstance(given, dict) or not isinstance(given.get("model"), str):
            return given
        recipe, inner = RECIPES.get(given["model"], {}), given.get("inner", {})
        if not recipe or not isinstance(inner, dict):
            return given
        if "warmup" in inner:
            recipe = {key: value for key, value in recipe.items() if key != "warmup_steps"}
        return {**given, "inner": {**recipe, **inner}}

    @model_validator(mode="after")
    def _every_head_has_its_keys(self) -> Train:
        its = self.shape()
        if its.kv_width != its.d:
            raise ValueError(
                f"a model with kv_heads below heads can be timed, as work.model, and not trained "
                f"(got model {self.model if isinstance(self.model, str) else its.kv_heads})"
            )
        return self

    def shape(self) -> Model:
        """Shape of the trained model: the data's vocabulary rules."""
        return shape(self.model).model_copy(update={"vocab": self.data.vocab})


OUTER_LR = {"mean_senders": 0.7, "mean_present": 3.0, "mean_all": 3.0}
"""Rate of SparseLoCo by `aggregate`, where a scenario leaves it out: the best of those tried, see
docs/log.md. The rules differ in step size by up to the number of replicas."""


class SparseLoCo(Strict):
    """Chunked top-k of the pseudo-gradient with error feedback (arXiv 2508.15706)."""

    name: Literal["sparseloco"] = "sparseloco"
    density: float = Field(0.03125, gt=0, le=1, description="Kept share of each chunk.")
    bits: Literal[2, 32] = Field(2, description="Bits of a kept value: 2 quantises.")
    error_feedback: float = Field(0.95, ge=0, le=1, description="Beta: decay of what is held back.")
    aggregate: Literal["mean_present", "mean_senders", "mean_all"] = Field(
        "mean_senders",
        description="Divide each coordinate by its senders, or all by the senders of the stage, or "
        "by all replicas.",
    )
    clip_to_median: bool = Field(
        False, description="Scale a sender's tensor down to the median norm of its senders."
    )
    lr: float = Field(
        OUTER_LR["mean_senders"],
        gt=0,
        description="Outer learning rate alpha; left out: 0.7 with mean_senders, else 3.",
    )

    @model_validator(mode="before")
    @classmethod
    def _lr_of_the_rule(cls, given: Any) -> Any:
        """Where `lr` is left out, it goes with the rule."""
        if not isinstance(given, dict) or "lr" in given:
            return given
        rate = OUTER_LR.get(str(given.get("aggregate")))
        return given if rate is None else {**given, "lr": rate}


class DiLoCo(Strict):
    """Dense averaging, then SGD with Nesterov momentum (DiLoCo, arXiv 2311.08105)."""

    name: Literal["diloco"]
    lr: float = Field(0.7, gt=0, description="Outer learning rate.")
    momentum: float = Field(0.9, ge=0, lt=1, description="Of the averaged pseudo-gradient.")


class Average(Strict):
    """Dense averaging of the pseudo-gradients of the senders.

    With `inner_steps: 1` it is synchronous data parallelism that averages updates.
    """

    name: Literal["average"]
    lr: float = Field(1.0, gt=0, description="Outer learning rate; 1 is the plain mean.")


Outer = Annotated[SparseLoCo | DiLoCo | Average, Field(discriminator="name")]

Replica = Annotated[int, Field(ge=0)]


class Boundary(Strict):
    """How activations and gradients cross from stage to stage, and what that asks of the weights.

    Keys that a codec does not use go back to their defaults, so that cells of a sweep that differ
    in them alone are one run.
    """

    codec: Literal["none", "constrained", "shared", "independent"] = Field(
        "none",
        description="none: d values a token, each way; shared: k, one subspace for all that is "
        "written; independent: k, a subspace a boundary; constrained: the weights of shared, d "
        "values.",
    )
    ratio: float = Field(0.125, gt=0, le=1, description="k / d; k is rounded, 1 at least.")
    weak_replicas: Replica | Annotated[list[Replica], Field(min_length=1)] | None = Field(
        None, description="The first so many replicas, or those listed, compress; null: all."
    )

    @model_validator(mode="after")
    def _unused_is_default(self) -> Boundary:
        unused = {"none": ("ratio", "weak_replicas"), "constrained": ("weak_replicas",)}
        for key in unused.get(self.codec, ()):
            object.__setattr__(self, key, type(self).model_fields[key].default)  # it is frozen
        return self

    @property
    def cuts(self) -> bool:
        """Whether k values travel instead of d."""
        return self.codec in ("shared", "independent")

    def width(self, d: int) -> int:
        """k = max(1, round(ratio x d))."""
        return max(1, round(self.ratio * d))

    def compresses(self, replica: int) -> bool:
        """Whether the replica's boundaries carry k values."""
        if not self.cuts or self.weak_replicas is None:
            return self.cuts
        if isinstance(self.weak_replicas, int):
            return replica < self.weak_replicas
        return replica in self.weak_replicas


class Method(Strict):
    """What both the clock and the trainer need of the learning method."""

    inner_steps: int = Field(20, ge=1, le=10_000, description="H: local steps of a global step.")
    outer: Outer = Field(default_factory=SparseLoCo, description="How replicas agree.")
    boundary: Boundary = Field(default_factory=Boundary, description="Stage boundaries.")
