"""What a session hands through the layers: taps, the position, counters."""

from typing import ClassVar

import numpy as np
import pytest

from refemu import models
from refemu.models.taps import Later, Watch, model_case
from refemu.units.unit import Cases


def test_watch_counts_and_shows_itself() -> None:
    watch = Watch()
    watch.count("overflowed_outputs", 0)
    watch.count("overflowed_outputs", 3)
    watch.emit(0, "ovp_decoder", model_case("why", "int4", "x", 0, {}))  # no tap

    assert repr(watch) == "Watch(first_token=0, counters={'overflowed_outputs': 3})"


def test_a_case_says_where_its_values_come_from() -> None:
    case = model_case("why", "int4", "blk.2.down.input", 2, {}, first_token=5, tokens=1)

    assert (case.kind, case.config, case.why) == ("model", "int4", "why")
    assert dict(case.source) == {"tensor": "blk.2.down.input", "layer": 2, "first_token": 5, "tokens": 1}


def test_tap_sees_only_the_named_units() -> None:
    class Tap:
        units = ("olive_mac",)
        heard: ClassVar[list[str]] = []

        def __call__(self, layer: int, unit: str, case: Cases) -> None:
            self.heard.append(unit)

    watch = Watch(Tap())
    for unit in ("olive_mac", "ovp_decoder"):
        watch.emit(0, unit, model_case("why", "wrap", "x", 0, {}))

    assert Tap.heard == ["olive_mac"]
    assert [watch.wants(unit) for unit in ("olive_mac", "ovp_decoder")] == [True, False]
    assert Watch(lambda *call: None).wants("ovp_decoder") and not Watch().wants("ovp_decoder")


def test_inputs_are_computed_once_at_first_access() -> None:
    made: list[int] = []
    later = Later(lambda: {"pair": np.array(made.append(1) or [1, 2])})

    assert (made, repr(later)) == ([], "Later()")
    assert later["pair"].tolist() == [1, 2] and list(later) == ["pair"] and len(later) == 1
    assert (made, repr(later)) == ([1], "Later(pair)")


def test_fp16_has_no_units_to_tap() -> None:
    def tap(layer: int, unit: str, case: Cases) -> None:
        pytest.fail(f"{unit} in layer {layer}")

    models.run("tiny", [1, 2, 3], taps=tap)
