"""Preset `repo` against outputs of OliVe's published code: grids, sweeps, fixed scales, edges, the whole search.

That code is fake quantization: float32 in, float32 out, no codes. Its units differ from grid units by a power of two,
so that every float32 step scales exactly: divide its values by `LSB`; its scale is ours divided by `LSB`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused
from refemu.formats import Ovp, OvpTensor
from refemu.formats.olive import ovp_search
from refemu.formats.olive.compiled import ovp as ovp_compiled
from refemu.formats.olive.compiled import ovp_search as ovp_search_compiled
from refemu.units.olive import flint_decoder

LSB = {"int4": 4.0, "flint4": 2.0, "int8": 0.25}
REPO = {"int4": formats.OVP_INT4_REPO, "flint4": formats.OVP_FLINT4_REPO, "int8": formats.OVP_INT8_REPO}
ENCODERS = {"readable": Ovp.encode, "compiled": ovp_compiled.encode}
SEARCHES = {"readable": ovp_search, "compiled": ovp_search_compiled}

encoders = pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
types = pytest.mark.parametrize("name", REPO)
Encode = Callable[..., OvpTensor]


def cases(file: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The descriptions of a file's cases."""
    described: list[dict[str, Any]] = json.loads(str(file["meta_json"]))
    return described


def grid_units(values: np.ndarray, name: str) -> list[Any]:
    """Values of the published code as integers of the normal type's LSB."""
    grid = values.astype(np.float64) / LSB[name]
    assert np.array_equal(grid, np.rint(grid))
    return grid.astype(np.int64).tolist()


def unpaired(fmt: Ovp, encode: Encode, values: np.ndarray, scale: Any = None) -> np.ndarray:
    """Grid values of elements, each the left of its own pair with 0."""
    alone = np.stack([values, np.zeros_like(values)], axis=-1)
    return encode(fmt, alone, scale).decode()[..., 0]


@pytest.mark.parametrize(
    ("grid", "fmt", "lsb"),
    [
        ("int4s", formats.INT4, 4),
        ("int8s", formats.INT8, 0.25),
        ("flint4s", formats.FLINT4, 2),
        ("flint8s", formats.Flint(width=8), 2.0**-7),
        ("outlier_default4s", formats.E2M1_BIAS2, 4),
        ("outlier_default4s", formats.E2M1_BIAS3, 2),
        ("outlier_default8s", formats.E2M5_BIAS2, 0.25),
        ("outlier_exp4_8s_not_called_by_repo", formats.E4M3_BIAS4, 0.25),
    ],
)
def test_signed_grids(reference: Any, grid: str, fmt: Any, lsb: float) -> None:
    """The E4M3 one is in the code but nothing calls it (D-olive-14); codes() knows no limit."""
    want = reference("olive/grids_repo")[grid]
    assert want.tolist() == sorted((fmt.decode(fmt.codes()) * lsb).tolist())


def test_unsigned_flint_is_magnitude_of_wider_signed_one(reference: Any) -> None:
    grid = reference("olive/grids_repo")["flint4u"]
    fmt = formats.Flint(width=5)
    values = fmt.decode(np.arange(16))

    assert grid.tolist() == sorted((values * 0.5).tolist())
    assert reference("olive/derived_code_tables")["uflint4_value"].tolist() == values.tolist()


@pytest.mark.parametrize("grid", ["int4u", "flint4u", "int8u", "flint8u"])
def test_no_format_has_an_unsigned_grid(reference: Any, grid: str) -> None:
    """D-olive-22: 2**width values leave no identifier, and `Ovp` takes no normal type without one."""
    levels = reference("olive/grids_repo")[grid].size
    assert levels == 1 << (8 if "8" in grid else 4)
    for width in (4, 8):
        with pytest.raises(Refused, match="Ovp: normal must leave"):
            Ovp(formats.IntFormat(width, symmetric=False), formats.E2M1_BIAS2)


def test_code_tables(reference: Any) -> None:
    """Restated from [olive Tbl. 3, Tbl. 4, Eq. 2]; 0 represents the identifier there."""
    table = reference("olive/derived_code_tables")
    codes = np.arange(16)
    for fmt, name in ((formats.INT4, "int4"), (formats.FLINT4, "flint4")):
        legal = codes[~table[f"{name}_is_identifier"]]
        assert legal.tolist() == fmt.codes().tolist()
        assert table[f"{name}_value"][legal].tolist() == fmt.decode(legal).tolist()
    for bias in range(4):
        fmt = formats.AbFloat(exp_bits=2, man_bits=1, bias=bias)
        assert table[f"e2m1_bias{bias}_value"].tolist() == fmt.decode(codes).tolist()
    wide = table["e4m3_bias4_value"]
    assert wide.tolist() == formats.E4M3_BIAS4.decode(np.arange(256)).tolist()
    stored = formats.E4M3_BIAS4.codes()
    assert table["e4m3_bias4_value_clip2p15"][stored].tolist() == formats.E4M3_BIAS4.round(wide[stored]).tolist()


def test_flint_pairs(reference: Any) -> None:
    """D-olive-16: exponents and integers of all codes; the identifier is <0, 0>."""
    table = reference("olive/derived_code_tables")
    result = flint_decoder.run(np.arange(16))

    assert table["flint4_exp"].tolist() == result.exponent.tolist()
    assert table["flint4_int"].tolist() == result.base_int.tolist()


@encoders
@types
@pytest.mark.parametrize("side", ["left", "right", "pairs"])
def test_sweeps(reference: Any, encode: Encode, name: str, side: str) -> None:
    """Every midpoint and its neighbours, at either side of a pair, and pairs of outliers; before and after victims."""
    file, fmt = reference(f"olive/sweep_{name}"), REPO[name]
    x, want, alone = (file[f"{key}_{side}"] for key in ("x", "q", "qpre"))

    assert float(file["unit"]) == LSB[name]
    assert grid_units(want, name) == encode(fmt, x / np.float32(LSB[name])).decode().tolist()
    assert grid_units(want, name) == encode(fmt, x, np.float32(LSB[name])).decode().tolist()
    assert grid_units(alone, name) == unpaired(fmt, encode, x, np.float32(LSB[name])).tolist()


def test_the_sweeps_hold_what_the_page_counts(reference: Any) -> None:
    files = [reference(f"olive/sweep_{name}") for name in REPO]
    assert sum(file[f"x_{side}"].size for file in files for side in ("left", "right", "pairs")) == 105_656


@encoders
def test_fixed_scales(reference: Any, encode: Encode) -> None:
    """72 tensors, one scale or one per row: quotient, values before and after victims, and the float32 result."""
    file = reference("olive/random_fixed_alpha")
    elements = 0
    for case in cases(file):
        get = {key: file[f"c{case['case']}_{key}"] for key in ("x", "scale", "xscaled", "qpre", "q", "out")}
        name, x = case["type"], get["x"]
        scale = (get["scale"] * np.float32(LSB[name])).reshape(-1 if case["per_channel"] else ())
        tensor = encode(REPO[name], x, scale)

        assert grid_units(get["q"], name) == tensor.decode().tolist()
        assert get["out"].tolist() == tensor.dequantize().tolist()
        assert np.array_equal(get["xscaled"], x / get["scale"])
        assert (
            grid_units(get["qpre"], name)
            == unpaired(REPO[name], encode, get["xscaled"] / np.float32(LSB[name])).tolist()
        )
        elements += x.size
    assert elements == 73_728


@encoders
@pytest.mark.parametrize("case", ["huge", "negzero"])
def test_edges(reference: Any, encode: Encode, case: str) -> None:
    """Beyond a distance the code's scan finds nothing and gives 0 (D-olive-46); -0 is 0 (D-olive-17)."""
    file, fmt = reference("olive/edge_int4_scale1"), REPO["int4"]
    x, want, alone = (file[f"{case}_{key}"] for key in ("x", "out", "qpre"))

    assert grid_units(want, "int4") == encode(fmt, x, np.float32(4)).decode().tolist()
    assert grid_units(alone, "int4") == unpaired(fmt, encode, x, np.float32(4)).tolist()


@encoders
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("odd_wrap", "flat pairs need an even number of elements, got 5"),
        ("odd_nowrap", "flat pairs need an even number of elements, got 5"),
        ("row_straddle", "flat pairs need an even number of elements, got 9"),
        ("single", "flat pairs need an even number of elements, got 1"),
        ("nonfinite", r"nan"),
    ],
)
def test_excluded_edges_are_rejected(reference: Any, encode: Encode, case: str, message: str) -> None:
    """D-olive-24 (the code pairs the last element with the first), D-olive-47 (it gives NaN, and NaN for infinity)."""
    x = reference("olive/edge_int4_scale1")[f"{case}_x"]
    for scale in (None, np.float32(4)):
        with pytest.raises(Refused, match=message):
            encode(REPO["int4"], x, scale)


@encoders
def test_infinity_alone_is_rejected(reference: Any, encode: Encode) -> None:
    x = reference("olive/edge_int4_scale1")["nonfinite_x"]
    for scale in (None, np.float32(4)):
        with pytest.raises(Refused, match="inf"):
            encode(REPO["int4"], x[2:4], scale)


def candidates(bit: int) -> tuple[Ovp, ...]:
    """What the published mode `ant-int-flint` tries: 8 bits know int only."""
    return (REPO["int8"],) if bit == 8 else (REPO["int4"], REPO["flint4"])


def signed_cases(file: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """All but the two unsigned tensors, which have no code (D-olive-22)."""
    kept = [case for case in cases(file) if case["signed"]]
    assert {case["case"] for case in cases(file)} - {case["case"] for case in kept} == {12, 26}
    return kept


@pytest.mark.parametrize("module", SEARCHES.values(), ids=SEARCHES)
def test_searches(reference: Any, module: Any) -> None:
    """26 whole searches: type, every ratio, every grid value; and alpha within 2 float32 steps.

    The code's float32 mean and deviation depend on the order of its sums, which is not a specification: the only
    tolerance here.
    """
    file = reference("olive/search_ant_int_flint")
    ratios = elements = 0
    for case in signed_cases(file):
        x, q, alpha, ratio = (file[f"c{case['case']}_{key}"] for key in ("x", "q", "alpha", "ratio"))
        per = "row" if case["per_channel"] else "tensor"
        fmt, found = module.select(x, candidates(case["bit"]), per, base="mean_sigma")
        name = f"{case['mode']}{case['bit']}"

        assert fmt is REPO[name], case
        assert ratio.ravel().tolist() == np.ravel(found.ratio).tolist(), case
        steps = np.ravel(found.alpha).astype(np.float32).view(np.int32) - alpha.ravel().view(np.int32)
        assert abs(steps).max() <= 2, case
        assert grid_units(q, name) == fmt.encode(x, found.scale).decode().tolist(), case
        ratios += ratio.size
        elements += x.size
    assert (ratios, elements) == (348, 59_904)


def test_unsigned_searches_are_off_every_signed_grid(reference: Any) -> None:
    """Without cases 12 and 26, whose results are not values of any signed format (D-olive-22)."""
    file = reference("olive/search_ant_int_flint")
    for case, name in ((12, "int4"), (26, "int8")):
        units = file[f"c{case}_q"].astype(np.float64) / LSB[name]
        assert not np.array_equal(units, np.rint(units))
