"""Durations as a scenario tells them: a number, or a law by name. The unit is that of the key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sim.laws import Empirical, Exponential, Fixed, Law, LogNormal, Weibull
from sim.strict import Strict

Positive = Annotated[float, Field(gt=0)]


class ExponentialLaw(Strict):
    """Memoryless durations."""

    law: Literal["exponential"] = "exponential"
    mean: float = Field(gt=0, description="Mean, in the unit of the key.")

    def build(self, unit_s: float) -> Law:
        """The law in seconds."""
        return Exponential(self.mean * unit_s)


class WeibullLaw(Strict):
    """Shape below 1: many short durations and a long tail."""

    law: Literal["weibull"]
    mean: Positive | None = Field(None, description="Mean, in the unit of the key; or scale.")
    scale: Positive | None = Field(None, description="63 % are shorter; instead of mean.")
    shape: float = Field(ge=0.1, le=100, description="k; 1 is exponential.")

    @model_validator(mode="after")
    def _one_size(self) -> WeibullLaw:
        if (self.mean is None) == (self.scale is None):
            raise ValueError("give exactly one of mean and scale")
        return self

    def build(self, unit_s: float) -> Law:
        """The law in seconds."""
        if self.scale is not None:
            return Weibull(self.scale * unit_s, self.shape)
        assert self.mean is not None, "one of the two is given"
        return Weibull.of_mean(self.mean * unit_s, self.shape)


class LogNormalLaw(Strict):
    """The logarithm is normal."""

    law: Literal["lognormal"]
    mean: float = Field(gt=0, description="Mean of the durations, in the unit of the key.")
    sigma: float = Field(gt=0, le=10, description="Deviation of their logarithm.")

    def build(self, unit_s: float) -> Law:
        """The law in seconds."""
        return LogNormal(self.mean * unit_s, self.sigma)


class EmpiricalLaw(Strict):
    """Durations that were seen; each is drawn as often as any other."""

    law: Literal["empirical"]
    values: Annotated[list[Positive], Field(min_length=1)] = Field(
        description="In the unit of the key."
    )

    def build(self, unit_s: float) -> Law:
        """The law in seconds."""
        return Empirical(tuple(value * unit_s for value in self.values))


Named = Annotated[
    ExponentialLaw | WeibullLaw | LogNormalLaw | EmpiricalLaw, Field(discriminator="law")
]
Duration = Positive | Named
"""A number is a fixed duration."""


def law(duration: Duration, unit_s: float) -> Law:
    """Law in seconds of a duration given in units of `unit_s` seconds."""
    if isinstance(duration, int | float):
        return Fixed(float(duration) * unit_s)
    return duration.build(unit_s)


def stretched(duration: Duration, factor: float) -> Duration:
    """The law of durations that are so many times as long; its shape stays."""
    if isinstance(duration, int | float):
        return float(duration) * factor
    if isinstance(duration, EmpiricalLaw):
        return EmpiricalLaw(law="empirical", values=[value * factor for value in duration.values])
    sizes = {key: getattr(duration, key, None) for key in ("mean", "scale")}
    longer = {key: size * factor for key, size in sizes.items() if size is not None}
    return duration.model_copy(update=longer)
