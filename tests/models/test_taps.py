"""What a session hands through the layers: taps, the position, counters."""

import pytest

from refemu import models
from refemu.models.taps import Watch, model_case
from refemu.units.unit import Cases


def test_watch_counts_and_shows_itself() -> None:
    watch = Watch()
    watch.count("overflowed_outputs", 0)
    watch.count("overflowed_outputs", 3)
    watch.emit(0, "ovp_decoder", model_case("why", "int4", "x", 0, {}))  # nobody listens

    assert repr(watch) == "Watch(first_token=0, counters={'overflowed_outputs': 3})"


def test_a_case_says_where_its_values_come_from() -> None:
    case = model_case("why", "int4", "blk.2.down.input", 2, {}, first_token=5, tokens=1)

    assert (case.kind, case.config, case.why) == ("model", "int4", "why")
    assert dict(case.source) == {"tensor": "blk.2.down.input", "layer": 2, "first_token": 5, "tokens": 1}


def test_fp16_has_no_units_to_tap() -> None:
    def tap(layer: int, unit: str, case: Cases) -> None:
        pytest.fail(f"{unit} in layer {layer}")

    models.run("tiny", [1, 2, 3], taps=tap)
