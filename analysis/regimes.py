"""Where real pools lie: losses per worker-hour that were seen, to draw beside swept rates.

The catalogue of the scenarios (`scenarios/catalogue/regimes.yaml`) has a law for each of these
names; here is the span of what was measured. A test holds both against each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Regime:
    """Losses of a worker per hour up, and the share of them that came in bulk."""

    name: str
    low: float
    high: float
    in_bulk: float
    """Share of workers lost together with others: independent draws do not show it."""
    source: str

    @property
    def independent(self) -> tuple[float, float]:
        """Losses per worker-hour that came one by one."""
        return self.low * (1 - self.in_bulk), self.high * (1 - self.in_bulk)


REGIMES = (
    Regime("owned", 1.0e-4, 2.7e-4, 0.0, "Meta RSC, Llama 3 (2024)"),
    Regime("calm-spot", 0.02, 0.06, 0.37, "SkyPilot V100 us-east-2a (2023), GCP CPUs (2019)"),
    Regime("ordinary-spot", 0.1, 0.3, 0.72, "SkyPilot V100 us-west-2, us-east-2 (2023)"),
    Regime("hostile-spot", 0.4, 0.7, 0.77, "SkyPilot V100 us-east-1 (2023), Bamboo (2021)"),
    Regime("starved", 1.0, 1.4, 0.9, "SkyPilot V100 us-east-1a, us-west-2b (2022-2023)"),
)  # fmt: skip
