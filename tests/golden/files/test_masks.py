"""Masks cover full ports or have a reason; bits are compared only under a mask."""

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import manifest as manifests
from refemu.golden.files import masks, sets
from refemu.golden.make import build
from refemu.units.ports import Port
from refemu.units.unit import Unit
from tests.golden import fakes

WRAP = fakes.BLENDER.configs["wrap"]
F16 = Port("y", 16, encoding="f16")
REASON = "the sign of the ratio: some dividers drop it"


def blender(mask: Any, name: str = "out.ratio", reason: str = "") -> Unit:
    """`blender` with this mask."""
    return dataclasses.replace(
        fakes.BLENDER, care=lambda config, inputs, result: {name: mask}, partial_care={name: reason} if reason else {}
    )


def stated(unit: Unit) -> Mapping[str, np.ndarray]:
    result = SimpleNamespace(both=np.zeros((2, 2)), ratio=np.zeros(2), odd=np.zeros(2))
    return masks.of_result(unit, WRAP, {}, result)


@pytest.mark.parametrize(
    ("mask", "name", "codes", "dtype"),
    [
        pytest.param([True, False], "out.ratio", [0xFFFF, 0], "uint16", id="bools"),
        pytest.param([[True, False], [False, True]], "out.both", [[31, 0], [0, 31]], "uint8", id="lanes of 5 bits"),
        pytest.param([True, False], "out.odd", [1, 0], "uint8", id="one bit"),
        pytest.param([0xFFFF, 0], "out.ratio", [0xFFFF, 0], "uint16", id="bit patterns"),
    ],
)
def test_a_mask_is_as_wide_as_its_port(mask: Any, name: str, codes: Any, dtype: str) -> None:
    made = stated(blender(np.array(mask), name))[name]
    assert (made.tolist(), str(made.dtype)) == (codes, dtype)


@pytest.mark.parametrize(
    ("mask", "name", "error", "message"),
    [
        pytest.param(
            [1, 0],
            "out.ratio",
            Refused,
            r"blender: mask of out.ratio: must be 0 or all 16 ones unless `partial_care` has a reason, "
            r"got 0x1 at index \(0,\)",
            id="partial",
        ),
        pytest.param([True], "out.ratio", Refused, r"shape must be \(2,\), got \(1,\)", id="shape"),
        pytest.param(
            [0.0, 1.0], "out.ratio", RefusedType, "bools are needed, or integers of 16 bits, got float64", id="floats"
        ),
        pytest.param([0, 1 << 16], "out.ratio", Refused, r"65536 at index \(1,\) is outside", id="wide"),
        pytest.param([True, True], "out.ration", Refused, "did you mean 'out.ratio'", id="no output"),
        pytest.param([True, True], "in.first", Refused, "unknown masked array 'in.first' of blender", id="an input"),
    ],
)
def test_invalid_masks_are_rejected(mask: Any, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stated(blender(np.array(mask), name))


def partial_set(reason: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    unit = dataclasses.replace(
        fakes.BLENDER,
        partial_care={"out.ratio": reason} if reason else {},
        care=lambda config, inputs, result: {"out.ratio": np.full(result.ratio.shape, 0x7FFF)},
    )
    return build.build(
        unit, "wrap", list(fakes.blend_cases(WRAP, "paper", 0)), generator={"paper": {"function": "f", "seed": 0}}
    )


def test_partial_mask_needs_a_reason() -> None:
    """The set has the reason too; without it, it is neither written nor read."""
    files = sets.render(*partial_set(REASON))
    manifest = manifests.parse(files[sets.MANIFEST], "set")
    arrays = sets.arrays_of(manifest, files[sets.VECTORS], "set")
    entry = next(one for one in manifest["arrays"] if one["name"] == "out.ratio.care")
    assert (entry["partial"], set(arrays["out.ratio.care"].tolist())) == (REASON, {0x7FFF})

    with pytest.raises(Refused, match="got 0x7fff"):
        partial_set("")
    del entry["partial"]
    with pytest.raises(Refused, match=r"set: out.ratio.care: must be 0 or all 16 ones .* got 0x7fff at index \(0,\)"):
        sets.arrays_of(manifest, files[sets.VECTORS], "set")


def test_differing_bits_are_found_under_the_mask() -> None:
    want, got = np.array([0x3C00, 0x3C00], np.uint16), np.array([0x3C01, 0xBC00], np.uint16)
    mask, unknown = np.array([0xFFFF, 0], np.uint16), np.array([0x10, 0x10], np.uint16)

    assert masks.differing(want, got, F16).tolist() == [0x0001, 0x8000]
    assert masks.differing(want, got, F16, mask).tolist() == [0x0001, 0]
    assert masks.differing(want, got, F16, mask, unknown).tolist() == [0x0011, 0]


def test_any_nan_accepts_nan_only() -> None:
    """D-arith-1: at a port of floats, unless NaN meets a number or a bit is x."""
    want = np.array([0x7E00, 0x7E00, 0x7C00], np.uint16)
    got = np.array([0xFE01, 0x3C00, 0x7C01], np.uint16)

    assert (masks.differing(want, got, F16) != 0).tolist() == [True, True, True]
    assert (masks.differing(want, got, F16, any_nan=True) != 0).tolist() == [False, True, True]
    assert (masks.differing(want, got, Port("y", 16), any_nan=True) != 0).tolist() == [True, True, True]
    assert masks.differing(want, got, F16, unknown=np.array([1, 0, 0], np.uint16), any_nan=True)[0] == 1


def test_remark_lists_arrays() -> None:
    assert masks.remark(["out.y", "out.z"]) == "; NaNs count as equal in out.y, out.z"
    assert masks.remark([]) == ""
