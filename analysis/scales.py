"""What a run can be drawn against: tokens, simulated time, simulated dollars, global steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from analysis import numbers
from analysis.load import Run

HOURS_FROM_S = 0.2 * 3600.0
"""Shorter runs are told in seconds."""


@dataclass(frozen=True)
class Scale:
    """An axis."""

    key: str
    """A column of `Run.cumulative`."""
    label: str
    divisor: float
    show: Callable[[float], str]

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the key in the axis' unit."""
        return values / self.divisor

    def at_times(self, run: Run, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where simulated times lie on the axis; between rounds by a straight line."""
        told = run.cumulative()
        return self.of(np.interp(times_s, told["end_s"], told[self.key]))

    def dress(self, axes: Axes) -> None:
        """Label and ticks of the x axis."""
        axes.set_xlabel(self.label)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: self.show(value)))


def _tick(value: float) -> str:
    return f"{value:,.6g}"


def time_unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Seconds of the unit in which the longest run reads well, and its name."""
    longest = max(run.wall_s for run in runs)
    return (3600.0, "hours") if longest > HOURS_FROM_S else (1.0, "seconds")


def trained_tokens() -> Scale:
    """Tokens that were really trained on, all replicas."""
    return Scale("train_tokens", "tokens trained on, all replicas", 1.0, _short)


def timed_tokens() -> Scale:
    """Tokens of the timed job."""
    return Scale("tokens", "simulated tokens of the timed job", 1.0, _short)


def _short(value: float) -> str:
    """A round count: 7.5M."""
    for scale, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.6g}{suffix}"
    return f"{value:.6g}"


def time(runs: Sequence[Run]) -> Scale:
    """Simulated time."""
    unit_s, name = time_unit(runs)
    return Scale("end_s", f"simulated {name}", unit_s, _tick)


def dollars() -> Scale:
    """Simulated dollars."""
    return Scale("usd", "simulated dollars", 1.0, lambda value: f"${_tick(value)}")


def global_steps() -> Scale:
    """Committed rounds."""
    return Scale("global_steps", "global steps", 1.0, _tick)


def durations(longest_s: float) -> Callable[[float], str]:
    """How durations of a title are told, all in the unit that suits the longest."""
    if longest_s < HOURS_FROM_S:
        return lambda seconds: f"{numbers.significant(seconds)} s"
    return lambda seconds: f"{numbers.hours(seconds)} h"
