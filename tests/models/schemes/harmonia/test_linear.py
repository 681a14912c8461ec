"""Linear layers: INT4 against the oracle, FP16 weights, biases, several layers in one matrix."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.formats.harmonia.bfp import Bfp
from refemu.models import backend
from refemu.models.schemes.harmonia.compiled import linear as harmonia_linear_compiled
from refemu.models.schemes.harmonia.config import KV8
from refemu.models.schemes.harmonia.linear import Linear
from refemu.models.schemes.harmonia.steps import Units
from tests.models.schemes.harmonia.arrays import arrays_of, bytes_of
from tests.oracles.harmonia import bfp
from tests.oracles.harmonia import units as harmonia_units

RANDOM = np.random.default_rng(2)
ROWS = [RANDOM.standard_normal((size, 200)).astype(np.float32) for size in (3, 2)]
POWERS = np.repeat(RANDOM.integers(-6, 7, (4, 25)), 8, axis=1)
X = (RANDOM.standard_t(3, (4, 200)) * np.exp2(POWERS)).astype(np.float16).astype(np.float32)
BIAS = [np.full(3, 1 / 3, np.float32), np.full(2, 1e-4, np.float32)]


def made(biased: bool = False, engine: str = "jit", **changes: Any) -> tuple[Linear, np.ndarray]:
    """The layers, and their sums for X before FP2Half."""
    config = dataclasses.replace(KV8, **changes)
    units = Units(backend.find(engine), config)
    linear = Linear(
        ["blk.0.q", "blk.0.k"],
        [len(part) for part in ROWS],
        lambda: np.concatenate(ROWS),
        BIAS if biased else [],
        units,
    )
    return linear, linear.sums(units.encode(config.format(8), units.words(X)))


@pytest.mark.parametrize(
    "changes",
    [{}, {"preset": "exact"}, {"product": "fp16"}, {"scale_per": 128}],
    ids=["paper", "exact", "product", "scale_per"],
)
@pytest.mark.parametrize("engine", ["jit", "numpy"])
def test_sums_equal_the_oracle(engine: str, changes: dict[str, Any]) -> None:
    """[harmonia §IV-B] D-harmonia-7, D-harmonia-8, D-harmonia-9: 200 inputs are two weight groups, the last short."""
    _, found = made(engine=engine, **changes)
    wanted = np.empty((4, 5), np.float32)
    for n, row in enumerate(np.concatenate(ROWS).tolist()):
        groups = bfp.encode_int(row)
        codes = [group.code[at : at + 32] for group in groups for at in range(0, len(group.code), 32)]
        scales = [group.scale for group in groups for _ in range(0, len(group.code), 32)]
        for t, x in enumerate(X.astype(np.float16).view(np.uint16).tolist()):
            wanted[t, n], _ = harmonia_units.dot_int(
                bfp.encode(x),
                codes,
                scales,
                changes.get("preset", "paper"),
                changes.get("product", "fp32"),
                changes.get("scale_per", 32),
            )

    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_options_tell_apart() -> None:
    found = {
        made(**changes)[1].tobytes()
        for changes in ({}, {"preset": "exact"}, {"product": "fp16"}, {"scale_per": 128}, {"zero_point": True})
    }

    assert len(found) == 5


def test_fp16_weights_meet_decoded_activations() -> None:
    """For sweeps that look at activations alone [harmonia Fig. 4]: ascending FP32 sums."""
    _, found = made(weights="fp16")
    a = Units(backend.NUMPY, KV8).encode(KV8.format(8), X.astype(np.float16).view(np.uint16)).dequantize()
    weights = np.concatenate(ROWS).astype(np.float16).astype(np.float32)
    wanted = np.zeros((4, 5), np.float32)
    for k in range(200):
        wanted += a[:, k, None].astype(np.float32) * weights[:, k]

    assert np.array_equal(found, wanted)


def test_layers_of_one_input_form_one_matrix() -> None:
    linear, sums = made()
    q, k = linear(linear.units.encode(KV8.format(8), linear.units.words(X)))

    assert np.array_equal(np.concatenate([q, k], axis=1), fp16.round16(sums))


@pytest.mark.parametrize("bias_add", ["after", "accumulator"])
def test_biases(bias_add: str) -> None:
    """D-harmonia-29: FP16 after FP2Half, or FP32 before it; the bias is an FP16 number in both."""
    linear, sums = made(True, bias_add=bias_add)
    found = np.concatenate(linear(linear.units.encode(KV8.format(8), linear.units.words(X))), axis=1)
    bias = np.concatenate(BIAS).astype(np.float16).astype(np.float32)
    wanted = fp16.round16(fp16.round16(sums) + bias) if bias_add == "after" else fp16.round16(sums + bias)

    assert np.array_equal(found, wanted)
    assert not np.array_equal(fp16.round16(fp16.round16(sums) + bias), fp16.round16(sums + bias))


def test_results_beyond_fp16() -> None:
    """D-harmonia-13: infinity, or with `saturate` 65504 of the sign; NaN stays."""
    x = np.array([7e4, -7e4, np.inf, np.nan, 65519.0], np.float32)
    found = [Units(backend.NUMPY, dataclasses.replace(KV8, saturate=saturate)).half(x) for saturate in (False, True)]

    assert np.array_equal(found[0], [np.inf, -np.inf, np.inf, np.nan, 65504], equal_nan=True)
    assert np.array_equal(found[1], [65504, -65504, 65504, np.nan, 65504], equal_nan=True)


def test_linear_repr() -> None:
    linear, _ = made()

    assert repr(linear) == "Linear(blk.0.q, blk.0.k)"
    assert repr(linear.units) == "Units(Jit())"


EXTREMES = np.array([0.0, -0.0, 2.0**-24, -(2.0**-24), 1023 * 2.0**-24, 2.0**-14, -65504.0, 1.0, -0.75], np.float32)


@pytest.mark.parametrize("width", [1, 4, 8, 11])
@pytest.mark.parametrize("group", [16, 32, 128])
def test_values_to_integers_as_codes_have_them(group: int, width: int) -> None:
    """Subnormal numbers, zeros of both signs, short groups: signed mantissas and their worth, +0 for every zero."""
    x = np.concatenate([X, RANDOM.choice(EXTREMES, (6, 200)), RANDOM.choice(EXTREMES[:5], (3, 200))])
    integers, powers = harmonia_linear_compiled.operand(x, group, width) or (x, x)
    codes = Bfp(width, group).encode(x.astype(np.float16))

    assert np.array_equal(integers[:, :200].view(np.uint32), codes.signed().astype(np.float32).view(np.uint32))
    assert not integers[:, 200:].any() and integers.shape[1] % group == 0
    assert np.array_equal(powers, np.ldexp(np.float32(1), codes.powers().astype(np.int32)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"preset": "exact"},
        {"product": "fp16"},
        {"act_mantissa": 11, "group": 128},
        {"bias_add": "accumulator"},
        {"act_mantissa": 4, "group": 16},
    ],
    ids=str,
)
def test_without_tensor_of_codes_bits_are_same(changes: dict[str, Any]) -> None:
    linear, _ = made(biased=True, **changes)
    config = linear.units.config
    wanted = linear(linear.units.encode(config.format(config.act_mantissa), linear.units.words(X)))
    found = linear.direct(X)

    assert found is not None
    assert [part.tobytes() for part in found] == [part.tobytes() for part in wanted]


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_per": 128},
        {"rounding": "half_even"},
        {"special": "saturate"},
        {"subnormals": "flush"},
        {"weights": "fp16"},
    ],
    ids=str,
)
def test_what_needs_a_tensor_gets_one(changes: dict[str, Any]) -> None:
    assert made(**changes)[0].direct(X) is None


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_nonfinite_values_use_the_conversion_that_rejects_them(value: float) -> None:
    x = X.copy()
    x[3, 199] = value

    assert made()[0].direct(x) is None


@pytest.mark.parametrize("engine", ["jit", "numpy"])
@pytest.mark.parametrize("zero_point", [False, True])
def test_codes_are_held_once_and_packed(engine: str, zero_point: bool) -> None:
    """The largest array has the codes, 4 bits where the kernel reads them; the tensor is rebuilt from it."""
    units = Units(backend.find(engine), dataclasses.replace(KV8, zero_point=zero_point))
    rows = np.random.default_rng(7).standard_normal((64, 1024)).astype(np.float32)
    linear = Linear(["blk.0.q"], [len(rows)], lambda: rows, [], units)
    factors = 64 * 1024 // 32 * 4 + 64 * 1024 // 128 * 3  # float32 by group of 32, fp16 and zero by group of 128
    packed = engine == "jit" and not zero_point
    size, found = rows.size // (1 + packed), arrays_of(linear)

    assert [array.dtype for array in found if array.size >= size] == [
        np.uint8 if packed or (zero_point and engine != "jit") else np.int8
    ]
    assert size < bytes_of(linear) <= size + factors
    assert linear.weight is not None and linear.weight.equals(units.quantize(rows))
