"""The steps of a Harmonia scheme: compiled and readable forms give equal bits, and FP2Half saturates where asked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.harmonia import bfp_dot
from refemu.models.backend import NUMPY, Jit
from refemu.models.schemes.harmonia.cache import offsets
from refemu.models.schemes.harmonia.config import KV4, KV8, HarmoniaConfig
from refemu.models.schemes.harmonia.steps import Units

RANDOM = np.random.default_rng(5)
X = fp16.round16(RANDOM.standard_t(3, (40, 128)).astype(np.float32))
W = RANDOM.standard_normal((24, 128)).astype(np.float32)
LOGITS = np.where(np.arange(128) > np.arange(40)[:, None], np.float32(-np.inf), X)
CONFIGS = [
    KV4,
    dataclasses.replace(KV4, preset="exact", product="fp16", zero_point=True),
    dataclasses.replace(KV4, group=16, rounding="half_even", saturate=True),
    dataclasses.replace(KV4, product="fp16", scale_per=128, offset_scope="head", offset_sign="unsigned"),
]


def encoded(units: Units) -> Any:
    return units.encode(units.config.format(8), units.words(X))


def codes(tensor: Any) -> list[np.ndarray]:
    return [tensor.sign, tensor.mantissa, tensor.exponent]


def shifted(units: Units) -> list[np.ndarray]:
    """Offsets of two KV heads of 64 channels, and the keys less these."""
    words = units.words(X)
    chosen = units.offsets(offsets(units.config, 2, 64), words)
    return [chosen, units.shift(words, chosen)]


STEPS: dict[str, Callable[[Units], list[np.ndarray]]] = {
    "words": lambda units: [units.words(X)],
    "values": lambda units: [units.values(fp16.bits(fp16.to_f16(X)))],
    "encode": lambda units: codes(encoded(units)),
    "encode along tokens": lambda units: codes(units.encode(units.config.format(4), units.words(X), 0)),
    "decode": lambda units: [units.decode(encoded(units))],
    "quantize": lambda units: [units.quantize(W).code, units.quantize(W).scale],
    "dot_int": lambda units: [units.dot_int(encoded(units), units.prepare(units.quantize(W)))],
    "dot": lambda units: [units.dot(encoded(units), encoded(units))],
    "half": lambda units: [units.half(X * np.float32(1e5) / 3)],
    "softmax": lambda units: [units.softmax(LOGITS)],
    "offsets and shift": shifted,
}


@pytest.mark.parametrize("config", CONFIGS, ids=["paper", "exact", "groups of 16", "late scale"])
@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_backends_give_equal_bits(step: Callable[[Units], list[np.ndarray]], config: HarmoniaConfig) -> None:
    compiled, readable = (step(Units(backend, config)) for backend in (Jit(), NUMPY))

    assert [(part.dtype, part.shape, part.tobytes()) for part in compiled] == [
        (part.dtype, part.shape, part.tobytes()) for part in readable
    ]


@pytest.mark.parametrize("backend", [Jit(), NUMPY], ids=repr)
def test_a_conversion_is_the_format_s(backend: Any) -> None:
    units = Units(backend, KV4)
    wanted = KV4.format(8).encode(fp16.to_f16(X))

    assert all(np.array_equal(part, other) for part, other in zip(codes(encoded(units)), codes(wanted), strict=True))
    assert np.array_equal(units.decode(encoded(units)), wanted.dequantize().astype(np.float32))


@pytest.mark.parametrize("config", CONFIGS, ids=["paper", "exact", "groups of 16", "late scale"])
def test_products_round_as_the_configuration_says(config: HarmoniaConfig) -> None:
    """D-harmonia-7, D-harmonia-8, D-harmonia-9: a lost option gives different bits."""
    units = Units(NUMPY, config)
    a, weights = encoded(units), units.quantize(W)
    partial = {"paper": "fp16", "exact": "fp32"}[config.preset]
    options = {"partial": partial, "product": config.product, "scale_per": config.scale_per}

    assert np.array_equal(units.dot_int(a, units.prepare(weights)), bfp_dot.bfp_dot_int(a, weights, **options))
    assert np.array_equal(units.dot(a, a), bfp_dot.bfp_dot(a, a, partial=partial))


@pytest.mark.parametrize("backend", [Jit(), NUMPY], ids=repr)
def test_rejected_conversion_names_its_tensor(backend: Any) -> None:
    with pytest.raises(Refused, match=r"^blk\.3\.k: Bfp\.encode: x must hold no infinity and NaN.* got 0x7c00"):
        Units(backend, KV4).encode(KV4.format(8), np.full((1, 32), 0x7C00, np.uint16), name="blk.3.k")


@pytest.mark.parametrize("backend", [Jit(), NUMPY], ids=repr)
def test_fp16_overflow_is_infinite_or_largest_value(backend: Any) -> None:
    """D-harmonia-13; a NaN stays one."""
    x = np.array([70000, -70000, 1.0001, np.nan], np.float32)
    plain, saturating = (Units(backend, dataclasses.replace(KV8, saturate=kind)).half(x) for kind in (False, True))

    assert plain.tolist()[:3] == [np.inf, -np.inf, 1] and saturating.tolist()[:3] == [65504, -65504, 1]
    assert np.isnan(plain[3]) and np.isnan(saturating[3])


@pytest.mark.parametrize("backend", [Jit(), NUMPY], ids=repr)
def test_channels_without_an_offset_pass_as_they_are(backend: Any) -> None:
    """D-harmonia-26: offsets of 0, of either sign, change not even the sign of a zero."""
    words = np.array([[0x8000, 0x8000, 0x3C00]], np.uint16)
    shifted = Units(backend, KV4).shift(words, np.array([0, 0x8000, 0x3800], np.uint16))

    assert shifted.tolist() == [[0x8000, 0x8000, 0x3800]]  # 1 - 0.5


def test_steps_repr() -> None:
    assert repr(Units(NUMPY, KV4)) == "Units(Numpy())"
