"""The pair encoder against Algorithms 1 and 2 of the oracle, the formats, and its own counters."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import OVP_INT4, OVP_INT8, AbFloat, Ovp
from refemu.units.olive import ovp_encoder
from refemu.units.olive.ovp_encoder import UNIT, OvpEncoder
from refemu.units.olive.ovp_encoder.cases import boundaries
from tests.oracles.olive import ovp

IMPLEMENTATIONS = [pytest.param(ovp_encoder.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
FORMATS = ["OVP_INT4", "OVP_FLINT4", "OVP_INT8", "OVP_INT4_REPO", "OVP_FLINT4_REPO", "OVP_INT8_REPO"]
FLOATS = st.one_of(
    st.floats(-40, 40, width=32),
    st.floats(-500, 500, width=32),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


def patterns(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


def expected(name: str, values: Any) -> list[int]:
    width = 8 if "INT8" in name else 4
    codes = [ovp.encode_pair(name, float(first), float(second)) for first, second in values]
    return [left | right << width for left, right in codes]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("fmt", "values", "pair"),
    [
        ("OVP_INT4", (5, -3), 0xD5),
        ("OVP_INT4", (17.6, 1), 0x82),
        ("OVP_INT4", (2, -98), 0xF8),
        ("OVP_INT4", (30.7, 3), 0x84),
        ("OVP_INT4", (48, 0), 0x85),
        ("OVP_INT4", (0, 48), 0x58),
        ("OVP_INT4", (9.5, 1), 0x17),
        ("OVP_INT4_REPO", (9.5, 1), 0x81),
        ("OVP_INT4", (-12, 12), 0x18),
        ("OVP_INT4_REPO", (-12, 12), 0x89),
        ("OVP_FLINT4", (-0.3, 16), 0x40),
        ("OVP_FLINT4", (24, 3), 0x81),
    ],
    ids=str,
)
def test_worked_examples(run: Any, fmt: str, values: tuple[float, float], pair: int) -> None:
    """[olive Fig. 1b, Alg. 1] and where the presets differ: D-olive-4 (at the threshold), D-olive-5 (a tie)."""
    assert int(run(patterns(values), fmt=fmt).pair) == pair


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("fmt", FORMATS)
def test_every_boundary_next_to_both_classes_equals_oracle(run: Any, fmt: str) -> None:
    """Midpoints, thresholds and ends with their neighbours: D-olive-7 to D-olive-11, D-olive-17, D-olive-46."""
    found: Any = formats.find(fmt)
    edges = boundaries(found)
    values = [pair for edge in edges for other in (1, -found.boundary * 2) for pair in ((edge, other), (other, edge))]

    assert run(patterns(values), fmt=fmt).pair.tolist() == expected(fmt, values)


@pytest.mark.parametrize("fmt", FORMATS)
@settings(deadline=None)
@given(values=st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8))
def test_drawn_pairs_equal_the_oracle_and_the_format(fmt: str, values: list[tuple[float, float]]) -> None:
    found: Any = formats.find(fmt)
    result = ovp_encoder.run(patterns(values), fmt=fmt)

    assert result.pair.tolist() == expected(fmt, values)
    assert result.pair.tolist() == found.encode(np.array(values, np.float32)).pairs().ravel().tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_counters_say_what_happened(run: Any) -> None:
    """Two normal values, one of them clamped; an outlier at either side; two outliers; above the range; below it."""
    result = run(patterns([(8, 1), (48, 1), (0, 48), (24, -48), (200, 0), (10, 0)]))

    assert {name: getattr(result, name) for name in ovp_encoder.UNIT.counters} == {
        "pairs": 6,
        "left_outliers": 3,
        "right_outliers": 2,
        "pruned_outliers": 1,
        "victims": 4,
        "saturated_pairs": 1,
        "raised_pairs": 1,
        "clamped_normals": 1,
    }
    assert result.kind.tolist() == [0, 1, 2, 2, 1, 1]
    assert (result.saturated.tolist(), result.raised.tolist()) == ([False] * 4 + [True, False], [False] * 5 + [True])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_clip_at_2_15_saturates_above_it_only(run: Any) -> None:
    """[olive §4.5] outliers clipped to 2**15."""
    result = run(patterns([(2**15, 0), (np.nextafter(np.float32(2**15), np.float32(np.inf)), 0)]), fmt="OVP_INT8")

    assert (result.pair.tolist(), result.saturated.tolist()) == ([0x8040, 0x8040], [False, True])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_far_outliers_become_0_and_are_not_counted(run: Any) -> None:
    """D-olive-46: an artefact of the published code, in its preset only."""
    result = run(patterns([(25697, 1), (25696, 1)]), fmt="OVP_INT4_REPO")

    assert (result.pair.tolist(), result.kind.tolist(), result.clamped_normals) == ([0x10, 0x87], [0, 1], 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("rounding", ["half_even", "half_away", "half_up", "half_down"])
@pytest.mark.parametrize("base", [OVP_INT4, OVP_INT8], ids=["int4", "int8"])
def test_any_format_object_is_taken(run: Any, rounding: str, base: Ovp) -> None:
    fmt = dataclasses.replace(base, rounding=rounding, left="high", winner="left", closed=True)
    values = [(edge, -2) for edge in boundaries(fmt)]
    words = fmt.encode(np.array(values, np.float32)).pairs().ravel()

    assert run(patterns(values), fmt=fmt).pair.tolist() == words.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_without_outliers_everything_is_normal(run: Any) -> None:
    result = run(patterns([(100, -100), (7, 3)]), fmt=dataclasses.replace(OVP_INT4, outlier=None))

    assert (result.pair.tolist(), result.kind.tolist(), result.clamped_normals) == ([0x97, 0x37], [0, 0], 2)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        pytest.param(
            patterns([(1, np.nan)]),
            Refused,
            r"value must be a finite float32, got 0x7fc00000 at index \(0, 1\)",
            id="nan",
        ),
        pytest.param(
            patterns([-np.inf, 1]),
            Refused,
            r"ovp_encoder: value must be a finite float32, got 0xff800000 at index \(0,\)",
            id="inf",
        ),
        pytest.param(np.zeros((2, 2), np.float32), RefusedType, "integers are needed, got dtype float32", id="floats"),
        pytest.param(
            patterns([1, 2, 3]), RefusedType, r"the last axis must hold 2 lanes, got shape \(3,\)", id="lanes"
        ),
    ],
)
def test_ovp_encoder_rejects_invalid_inputs(run: Any, value: Any, error: type[Exception], message: str) -> None:
    """D-olive-47: NaN and infinity have no code."""
    with pytest.raises(error, match=message):
        run(value)


@pytest.mark.parametrize("fmt", ["INT4", "nonsense", dataclasses.replace(OVP_INT4, outlier=AbFloat(3, 0, 2))], ids=str)
def test_other_formats_are_rejected(fmt: Any) -> None:
    with pytest.raises(Refused, match=r"pair format of 4 or 8 bits|unknown format"):
        OvpEncoder(fmt)


def test_rejected_step_with_nan_leaves_state() -> None:
    encoder = OvpEncoder()
    before = encoder.step(patterns((48, 0)))
    with pytest.raises(Refused, match="finite"):
        encoder.step(patterns((48, np.nan)))

    assert encoder.snapshot() == before


def test_ovp_encoder_repr_evaluates_back() -> None:
    assert repr(OvpEncoder("OVP_INT8")) == "OvpEncoder(fmt='OVP_INT8')"
    assert "Ovp(" in repr(OvpEncoder(OVP_INT8))
