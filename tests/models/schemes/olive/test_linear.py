"""Linear layers of the OliVe schemes equal plain Python, wrap or saturate at 32 bits, and reject pairs across rows."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.olive.ovp import OVP_FLINT4, OVP_INT4, OVP_INT8
from refemu.models import schemes
from refemu.models.backend import NUMPY, Jit
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.linear import (
    Candidates,
    Input,
    Part,
    Plain,
    Weight,
    largest,
    pair_values,
    quantize,
)
from refemu.models.taps import Watch
from tests.oracles import fp16 as oracle16
from tests.oracles import sums
from tests.oracles.olive import ovp


@cache
def prepared(text: str = "olive-4") -> Any:
    """Four candidates instead of 88: the search has its own tests."""
    config = dataclasses.replace(schemes.parse(text), low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, calibration=list(b"It is a truth universally acknowledged"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("olive-4", "q"),
        ("olive-4", "down"),
        ("olive-8", "down"),
        ("olive-4:preset=repo", "o"),
        ("olive-8:preset=repo", "up"),
    ],
)
def test_linear_layer_equals_plain_python(text: str, name: str) -> None:
    """[olive §4]: encode, integer products, 32 bits, fl32(fl32(acc) * fl32(s_a * s_w)), fp16 (D-olive-42)."""
    [group] = [group for group in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",)) if name in group]
    part = prepared(text).group(0, group)[0]
    weight = part.weights[group.index(name)]
    x = fp16.to_f16(np.random.default_rng(3).standard_normal((3, weight.tensor.shape[1])) * 4).astype(np.float32)
    wide = part(x).outputs[:, part.columns[f"blk.0.{name}"]]
    y = prepared(text).linear(0, group, x, Watch())[group.index(name)]
    expected = [
        [linear(row, column, part, weight, n) for n, column in enumerate(weight.grid().tolist())] for row in x.tolist()
    ]

    assert wide.dtype == np.float32 and expected == wide.tolist()  # what rounding to fp16 would hide
    assert [[sums.f16(value) for value in row] for row in expected] == y.tolist()


def linear(x: list[float], w: list[int], part: Part, weight: Weight, n: int) -> float:
    assert part.input is not None
    kind = {"int4": "OVP_INT4", "flint4": "OVP_FLINT4", "int8": "OVP_INT8"}[part.fmt.normal.name]
    kind += "_REPO" if part.fmt.pairing == "flat" else ""
    scale, grid = float(part.input.scale), []
    for left, right in zip(x[::2], x[1::2], strict=True):
        codes = ovp.encode_pair(kind, *(oracle16.f32(value / scale) for value in (left, right)))
        grid += list(ovp.decode_pair(kind, *codes))
    acc = (sum(a * b for a, b in zip(grid, w, strict=True)) + (1 << 31)) % (1 << 32) - (1 << 31)
    rescale = oracle16.f32(scale * float(weight.scale[n]))
    return oracle16.f32(oracle16.f32(acc) * rescale)


#: Against `overflowing`: two outlier products of one sign that reach 2**31; then one of the other sign.
BEYOND, BACK = np.array([[1 << 15, 0, 1 << 15, 0] + [0] * 4 + [last, 0] for last in (0, 1 << 15)], np.float32)[:, None]


def overflowing(overflow: str, backend: Any) -> Part:
    """One output whose sums leave 32 bits; scales 1."""
    weight = Weight(
        "w",
        OVP_INT8,
        OVP_INT8.encode(
            np.array([[1 << 15, 0, 1 << 15, 0] + [0] * 4 + [-(1 << 15), 0]]), np.ones(1, np.float32)
        ).pairs(),
        10,
        np.ones(1, np.float32),
        0.0,
    )
    part = Part(0, ["w"], [weight], Candidates((OVP_INT8,), "sigma", 75, 250, 2), overflow, backend)
    part.set_input(Input(OVP_INT8, np.float32(1), 0.0))
    return part


@pytest.mark.parametrize("backend", [NUMPY, Jit()], ids=repr)
def test_sums_beyond_32_bits_wrap_or_saturate(backend: Any) -> None:
    """D-olive-33. Saturation follows the dot-product unit: 8 products at a time."""
    parts = (overflowing(overflow, backend) for overflow in ("wrap", "saturate"))
    wrapped, saturated = ([part(x) for x in (BEYOND, BACK)] for part in parts)

    assert [float(product.outputs[0, 0]) for product in wrapped] == [-(2.0**31), 2.0**30]
    # fl32(2**31 - 1), then 2**31 - 1 - 2**30 rounded
    assert [float(product.outputs[0, 0]) for product in saturated] == [2.0**31, 2.0**30]
    assert [product.overflowed for product in (*wrapped, *saturated)] == [1, 0, 1, 0]
    assert [float(product.exact[0, 0]) for product in (*wrapped, *saturated)] == [2.0**31, 2.0**30] * 2


def test_flat_pairs_across_rows_are_rejected() -> None:
    choice = Candidates(OliveConfig(preset="repo").formats(4), "mean_sigma", 75, 250, 2)
    with pytest.raises(Refused, match=r"blk\.0\.q: the number of inputs must be even for pairs of preset repo, got 5"):
        quantize("blk.0.q", np.ones((2, 5), np.float32), choice, NUMPY)


@pytest.mark.parametrize(("fmt", "expected"), [(OVP_INT4, 96), (OVP_FLINT4, 192), (OVP_INT8, 15 << 19)], ids=str)
def test_every_pair_word_has_two_values(fmt: Any, expected: int) -> None:
    """What `decode` says, and 0 for the illegal ones; 8-bit words reach values that no encoder makes."""
    table, words = pair_values(fmt), fmt.legal_pairs()
    illegal = np.setdiff1d(np.arange(1 << 2 * fmt.width), words)

    assert np.array_equal(fmt.decode(fmt.split(words)), table[words])
    assert not table[illegal].any()
    assert largest(fmt) == expected


def test_repr_names_the_layers() -> None:
    assert repr(prepared().group(1, ("gate", "up"))[0]) == "Part(blk.1.gate, blk.1.up)"
    assert (
        repr(Plain(["blk.0.o"], [slice(0, 2)], NUMPY.weights(np.zeros((2, 2), np.float16)), NUMPY)) == "Plain(blk.0.o)"
    )
