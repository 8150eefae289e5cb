"""The no-failure run that cells are compared with."""

from __future__ import annotations

from scenarios.derive import no_failure
from scenarios.schema import Scenario


def test_a_jittered_run_is_compared_with_the_run_that_is_not() -> None:
    plain = Scenario.model_validate({"name": "x"})
    shaken = Scenario.model_validate({"name": "x", "train": {"jitter": 1e-5}})
    assert no_failure(shaken) == no_failure(plain)
    assert no_failure(shaken).train != shaken.train
