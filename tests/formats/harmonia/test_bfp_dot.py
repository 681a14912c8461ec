"""Dot products of BFP tensors against the oracle's fractions: vectors, matrices, both axes, short groups, options."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8, Bfp
from refemu.formats.groupint import INT4_G128, GroupInt
from refemu.formats.harmonia import bfp_dot
from refemu.formats.harmonia.bfp_dot import PRESETS
from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled
from refemu.testing import float16s
from tests.arith.strategies import repeating
from tests.oracles.harmonia import bfp, units

MODULES = [pytest.param(bfp_dot, id="readable"), pytest.param(bfp_dot_compiled, id="compiled")]


def values(shape: tuple[int, ...], seed: int, spread: float = 3) -> np.ndarray:
    """fp16 of very different size, some of them subnormal or 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * np.exp2(rng.integers(-4, 5, shape) * spread)
    return np.where(rng.random(shape) < 0.05, 0, x).astype(np.float16)


def groups(row: np.ndarray, m: int, size: int = 32) -> list[bfp.Group]:
    return bfp.encode(row.view(np.uint16).tolist(), m, size)


def codes_of(w: Any, out: int, size: int) -> tuple[list[list[int]], list[int]]:
    """Codes and scale words of one row of weights, one entry per BFP group of `size`."""
    starts = range(0, w.shape[-1], size)
    return [w.grid()[out, at : at + size].tolist() for at in starts], [
        int(w.scale.view(np.uint16)[out, at // w.size]) for at in starts
    ]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("preset", ["paper", "exact"])
@pytest.mark.parametrize(("product", "scale_per"), [("fp32", 32), ("fp16", 32), ("fp32", 128), ("fp16", 128)])
@pytest.mark.parametrize("length", [1, 33, 200])
def test_weights_equal_the_oracle(module: Any, preset: str, product: str, scale_per: int, length: int) -> None:
    """[harmonia §IV-B] D-harmonia-7, D-harmonia-8, D-harmonia-9, D-harmonia-10, with short last groups."""
    x, weights = values((3, length), 1), np.random.default_rng(2).normal(size=(2, length)).astype(np.float32)
    w = INT4_G128.encode(weights)
    options = {"partial": PRESETS[preset], "product": product, "scale_per": scale_per}
    got = module.bfp_dot_int(BFP8.encode(x), w, **options)
    wanted = [
        [units.dot_int(groups(row, 8), *codes_of(w, out, 32), preset, product, scale_per)[0] for out in range(2)]
        for row in x
    ]

    assert got.dtype == np.float32 and got.tolist() == wanted
    assert got.tolist()[0][0] == float(module.bfp_dot_int(BFP8.encode(x[0]), one_row(w), **options))


def one_row(w: Any) -> Any:
    return w.format.tensor(w.code[0], w.scale[0])


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("preset", ["paper", "exact"])
@pytest.mark.parametrize(("bits", "length"), [(8, 64), (4, 64), (8, 45), (4, 1)])
def test_activations_equal_the_oracle(module: Any, preset: str, bits: int, length: int) -> None:
    """[harmonia §III-D] Keys along channels, values along tokens: the reduction may be either axis of b."""
    x, y, fmt = values((3, length), 3, 1), values((4, length), 4, 1), Bfp(bits)
    wanted = [[units.dot(groups(a, 8), groups(b, bits), preset)[0] for b in y] for a in x]
    along = module.bfp_dot(BFP8.encode(x), fmt.encode(y), partial=PRESETS[preset])
    across = module.bfp_dot(BFP8.encode(x), fmt.encode(np.ascontiguousarray(y.T), axis=0), partial=PRESETS[preset])

    assert along.tolist() == across.tolist() == wanted
    assert module.bfp_dot(BFP8.encode(x[0]), fmt.encode(y[0]), partial=PRESETS[preset]).shape == ()


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("size", "group"), [(64, 32), (128, 16), (32, 32)])
def test_late_factors_go_with_their_weight_group(module: Any, size: int, group: int) -> None:
    """D-harmonia-9: the partials of a weight group, however many, are added from +0 and scaled once."""
    x, w = values((1, 200), 13, 1), GroupInt(4, size).encode(values((1, 200), 14, 1).astype(np.float32))
    total = np.float32(0)
    for at in range(0, 200, size):
        some, ones = x[:, at : at + size], np.ones((1, 1), np.float16)
        part = bfp_dot.bfp_dot_int(Bfp(8, group).encode(some), w.format.tensor(w.code[:, at : at + size], ones))
        total = total + part[0, 0] * np.float32(w.scale[0, at // size])

    assert module.bfp_dot_int(Bfp(8, group).encode(x), w, scale_per=128).tolist() == [[float(total)]]


def moderate(count: int) -> st.SearchStrategy[np.ndarray]:
    """fp16 below 64: sums of products of larger ones overflow in FP16."""
    return float16s(count).map(lambda x: np.where(np.abs(x) < np.float16(64), x, x / np.float16(1024)))


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 11),
    other=st.integers(1, 11),
    group=st.sampled_from([1, 7, 16, 32, 64, 128]),
    length=st.integers(1, 140),
    partial=st.sampled_from(["fp16", "fp32"]),
    data=st.data(),
)
def test_compiled_form_equals_the_readable_form(
    m: int, other: int, group: int, length: int, partial: str, data: st.DataObject
) -> None:
    """Every width and group of a sweep, prepared or not."""
    values = data.draw(st.sampled_from([moderate, float16s]))
    left, right, weights = (data.draw(repeating(values, (rows, length))) for rows in (2, 3, 3))
    a, b, w = Bfp(m, group).encode(left), Bfp(other, group).encode(right), INT4_G128.encode(weights.astype(np.float32))
    forms: list[Any] = [(bfp_dot.bfp_dot, bfp_dot_compiled.bfp_dot, b)]
    if 128 % group == 0 or length <= 128:  # no group of activations meets two weight factors
        forms.append((bfp_dot.bfp_dot_int, bfp_dot_compiled.bfp_dot_int, w))
    for readable, compiled, operand in forms:
        want = readable(a, operand, partial=partial)
        prepared = bfp_dot_compiled.prepare(operand, group)

        assert want.tobytes() == compiled(a, operand, partial=partial).tobytes()
        assert want.tobytes() == compiled(a, prepared, partial=partial, threads=2).tobytes()


@pytest.mark.parametrize("module", MODULES)
def test_zero_points_join_the_integer_sum(module: Any) -> None:
    """D-harmonia-14: code - zero, as the oracle subtracts it."""
    x = values((2, 70), 5)
    w = GroupInt(4, 128, zero_point=True).encode(np.random.default_rng(6).random((3, 70)).astype(np.float32) - 0.2)
    got = module.bfp_dot_int(BFP8.encode(x), w)
    assert w.zero is not None
    zeros = w.zero[:, 0].tolist()
    codes = [[w.code[out, at : at + 32].tolist() for at in (0, 32, 64)] for out in range(3)]
    wanted = [
        [
            units.dot_int(
                groups(row, 8), codes[out], [int(w.scale.view(np.uint16)[out, 0])] * 3, zeros=[zeros[out]] * 3
            )[0]
            for out in range(3)
        ]
        for row in x
    ]

    assert got.tolist() == wanted


@pytest.mark.parametrize("module", MODULES)
def test_4_bits_equal_8_with_zero_nibbles(module: Any) -> None:
    """D-harmonia-36: the same value gives the same bits, so one tile may have one mode."""
    x, key = BFP8.encode(values((3, 64), 7)), BFP8.encode(values((5, 64), 8))
    low = key.demote(4)
    wide = BFP8.tensor(low.sign, low.mantissa << 4, low.exponent)

    assert module.bfp_dot(x, low).tobytes() == module.bfp_dot(x, wide).tobytes()


@pytest.mark.parametrize("module", MODULES)
def test_overflowing_partial_sums_give_infinity_or_nan(module: Any) -> None:
    """D-harmonia-7: `paper` converts to FP16 first; `exact` does not overflow; NaN is canonical (D-harmonia-10)."""
    x = np.full((1, 64), 60_000, np.float16)
    y = np.where(np.arange(64) < 32, x, -x)
    paper, exact = (module.bfp_dot(BFP8.encode(x), BFP8.encode(y), partial=partial) for partial in ("fp16", "fp32"))

    assert (int(paper.view(np.uint32)[0, 0]), exact.tolist()) == (0x7FC00000, [[0.0]])


def test_prepared_weights_keep_every_option() -> None:
    x, w = BFP8.encode(values((2, 200), 9)), INT4_G128.encode(values((3, 200), 10).astype(np.float32))
    ready = bfp_dot_compiled.prepare(w)

    assert repr(ready).startswith("<Prepared GroupIntTensor(int4_g128, shape=(3, 200)")
    assert w.equals(ready.tensor) and x.equals(bfp_dot_compiled.prepare(x).tensor)
    for fmt in (GroupInt(3, 7), GroupInt(8, 32, zero_point=True), GroupInt(4, None, zero_point=True)):
        for shape in ((70,), (3, 70)):
            tensor = fmt.encode(values(shape, 11).astype(np.float32))
            assert tensor.equals(bfp_dot_compiled.prepare(tensor, 7 if fmt.group == 7 else 32).tensor)
    several: list[dict[str, Any]] = [{"scale_per": 128}, {"product": "fp16"}, {"partial": "fp32", "product": "fp16"}]
    for options in several:
        want = bfp_dot.bfp_dot_int(x, w, **options)
        assert want.tobytes() == bfp_dot_compiled.bfp_dot_int(x, ready, **options).tobytes()


X64, Y64 = BFP8.encode(values((2, 64), 11)), BFP8.encode(values((2, 64), 12, 1))
W64 = INT4_G128.encode(np.ones((2, 64), np.float32))
BAD = [
    pytest.param(
        lambda m: m.bfp_dot(X64, BFP8.encode(values((2, 63), 1))), Refused, "64 in 32 and 63 in 32", id="length"
    ),
    pytest.param(
        lambda m: m.bfp_dot(X64, Bfp(8, 16).encode(values((2, 64), 1))), Refused, "64 in 32 and 64 in 16", id="groups"
    ),
    pytest.param(
        lambda m: m.bfp_dot(X64, W64), RefusedType, "bfp_dot: a BfpTensor is needed, got GroupInt", id="weights"
    ),
    pytest.param(
        lambda m: m.bfp_dot_int(X64, Y64), RefusedType, "w must be a GroupIntTensor .*, got BfpTensor", id="mantissas"
    ),
    pytest.param(
        lambda m: m.bfp_dot_int(np.ones(64), W64), RefusedType, "a BfpTensor is needed, got ndarray", id="array"
    ),
    pytest.param(
        lambda m: m.bfp_dot_int(BFP8.encode(values((2, 2, 64), 1)), W64), RefusedType, "vector or a matrix", id="rank"
    ),
    pytest.param(
        lambda m: m.bfp_dot_int(X64, W64, scale_per=64), Refused, "scale_per must be one of 32, 128", id="per"
    ),
    pytest.param(lambda m: m.bfp_dot_int(X64, W64, partial="bf16"), Refused, "partial must be one of", id="partial"),
    pytest.param(
        lambda m: m.bfp_dot_int(X64, W64, scale_per=128, product="x"), Refused, "product must be", id="product"
    ),
    pytest.param(
        lambda m: m.bfp_dot_int(
            Bfp(8, 48).encode(values((2, 200), 1)), INT4_G128.encode(np.ones((2, 200), np.float32))
        ),
        Refused,
        "groups of 48 inputs cross weight groups of 128",
        id="crossing",
    ),
]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bfp_dot_rejects_invalid_inputs(module: Any, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(module)


def test_4_bit_mantissas_match_the_other_constant() -> None:
    short = BFP4.encode(values((2, 64), 12, 1))

    assert bfp_dot.bfp_dot(Y64, short).tolist() == bfp_dot.bfp_dot(Y64, Y64.demote(4)).tolist()
