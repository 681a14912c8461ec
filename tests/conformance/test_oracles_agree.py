"""The oracles of this test suite against the same outside data: an oracle that is wrong would prove nothing."""

import json
from typing import Any

import numpy as np
import pytest

from tests.oracles import fp16
from tests.oracles.olive import ovp

TESTFLOAT = "testfloat/testfloat_f16_level1"
LSB = {"int4": 4.0, "flint4": 2.0, "int8": 0.25}
SAMPLE = {"f16_mulAdd": 20, "f16_add": 4, "f16_sub": 4, "f16_mul": 4, "f16_div": 4}  # every n-th row; else all


@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        ("f16_add", fp16.add),
        ("f16_sub", fp16.sub),
        ("f16_mul", fp16.mul),
        ("f16_div", fp16.div),
        ("f16_sqrt", fp16.sqrt),
        ("f16_mulAdd", fp16.fma),
        ("f16_mulAdd_hard", fp16.fma),
    ],
)
def test_fp16_operations(reference: Any, function: str, oracle: Any) -> None:
    """SoftFloat's words, its NaNs written as the canonical one."""
    for *operands, want, _ in reference(TESTFLOAT)[function][:: SAMPLE.get(function, 1)].tolist():
        assert (fp16.NAN if want & 0x7FFF > 0x7C00 else want) == oracle(*operands)


@pytest.mark.parametrize("name", LSB)
@pytest.mark.parametrize("side", ["left", "right", "pairs"])
def test_pairs_of_the_published_code(reference: Any, name: str, side: str) -> None:
    file = reference(f"olive/sweep_{name}")
    x, q = ((file[f"{key}_{side}"].astype(np.float64) / LSB[name]).reshape(-1, 2).tolist() for key in ("x", "q"))
    fmt = f"OVP_{name.upper()}_REPO"

    assert q == [list(ovp.decode_pair(fmt, *ovp.encode_pair(fmt, *pair)) or "illegal") for pair in x]


@pytest.mark.parametrize("number", [10, 23])
def test_searches_of_the_published_code(reference: Any, number: int) -> None:
    """Of 26 cases the two that are richest in outliers: one scale and two types; a scale per row and int8."""
    file = reference("olive/search_ant_int_flint")
    case = json.loads(str(file["meta_json"]))[number]
    x = file[f"c{number}_x"]
    names = ["OVP_INT8_REPO"] if case["bit"] == 8 else ["OVP_INT4_REPO", "OVP_FLINT4_REPO"]
    name, found = ovp.select(names, x.tolist() if case["per_channel"] else [x.ravel().tolist()], "mean_sigma")

    assert f"OVP_{case['mode']}{case['bit']}_REPO".upper() == name
    assert file[f"c{number}_ratio"].ravel().tolist() == [row.ratio for row in found]
