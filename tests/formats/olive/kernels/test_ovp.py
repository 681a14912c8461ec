"""The kernels as plain Python, the patterns they compare with, and their sums."""

import runpy
from typing import Any

import numpy as np
import pytest

from refemu.arith import jit
from refemu.formats import FLINT4, INT4, OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, AbFloat, Flint, Ovp, constants
from refemu.formats.olive.kernels import ovp

FORMATS = [pytest.param(fmt, id=name) for name, fmt in constants().items() if isinstance(fmt, Ovp)]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of the kernel file, none compiled."""
    for decorator in jit.__all__:
        monkeypatch.setattr(jit, decorator, lambda function: function)
    return runpy.run_path(ovp.__file__)


def name_of(fmt: Ovp, stem: str) -> str:
    return f"{stem}_flint4" if fmt.normal == FLINT4 else f"{stem}_integer"


def values(fmt: Ovp) -> np.ndarray:
    """Values and midpoints of both types, their neighbours, both signs, mixed."""
    assert fmt.outlier
    halves, outliers = np.arange(0, fmt.normal.largest + 1, 0.5), fmt.outlier.magnitudes()[:20]
    points = np.concatenate([halves, outliers, [fmt.boundary, 1e9]]).astype(np.float32)
    near = np.concatenate([points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))])
    return np.random.default_rng(2).permutation(np.concatenate([near, -near]))


@pytest.mark.long
@pytest.mark.parametrize("fmt", FORMATS)
def test_encode_kernels_give_the_same_words_interpreted(fmt: Ovp, plain: dict[str, Any]) -> None:
    x, plan, special = values(fmt), ovp.plan(fmt), ovp.special(fmt)
    words = [np.zeros(len(x) // 2, np.uint16) for _ in range(2)]
    runs = getattr(ovp, name_of(fmt, "encode")), plain[name_of(fmt, "encode")]
    largest = [run(x.view(np.int32), out, plan, special) for run, out in zip(runs, words, strict=True)]

    assert np.array_equal(words[0], fmt.encode(x).pairs())
    assert np.array_equal(words[0], words[1])
    assert largest[0] == largest[1] == np.abs(x).max().view(np.int32)


@pytest.mark.parametrize("fmt", FORMATS)
def test_error_kernels_give_the_same_sums_interpreted(fmt: Ovp, plain: dict[str, Any]) -> None:
    """D-olive-28: float64, left to right over the row."""
    x, plan, special = values(fmt)[:120].reshape(3, 40), ovp.plan(fmt), ovp.special(fmt)
    scales = np.float32([[1, 0.3, 7], [0.25, 0.1, 0.11], [3, 3e-38, 1e9]])
    errors = [np.zeros(scales.shape) for _ in range(2)]
    with np.errstate(over="ignore"):
        getattr(ovp, name_of(fmt, "errors"))(x, scales, errors[0], plan, special)
        plain[name_of(fmt, "errors")](x, scales, errors[1], plan, special)

    assert errors[0].tobytes() == errors[1].tobytes()
    for column in range(3):
        off = fmt.encode(x, scales[:, column]).decode() * scales[:, column, None].astype(np.float64) - x
        assert errors[0][:, column].tolist() == [in_order(row) for row in (off * off).tolist()]


def in_order(terms: list[float]) -> float:
    total = 0.0
    for term in terms:
        total += term
    return total


def test_decode_kernels_give_the_same_values_interpreted(plain: dict[str, Any]) -> None:
    words, table = np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint32) << 8
    out = [np.zeros(256, np.uint16) for _ in range(2)]

    assert ovp.decode(words, table, out[0]) == plain["decode"](words, table & 0xFFFF, out[1]) == 0xFF00
    assert out[0].tolist() == out[1].tolist() == (words.astype(int) << 8).tolist()
    for run in (ovp.any_marked, plain["any_marked"]):
        assert [bool(run(words, words == 255)), bool(run(words[:9], words == 255))] == [True, False]


def test_only_special_formats_pay_for_special_steps() -> None:
    assert [ovp.special(fmt) for fmt in (OVP_INT4, OVP_FLINT4, OVP_INT8, Ovp(INT4, None))] == [None] * 4
    assert ovp.special(OVP_INT4_REPO) is not None
    assert ovp.plan(Ovp(Flint(5), AbFloat(3, 1, 6))) is None


@pytest.mark.parametrize("threshold", [9.5, 9.1, float(np.float32(9.1)), 1e-50, 3.5e38])
@pytest.mark.parametrize("closed", [False, True])
def test_boundary_is_largest_float32_of_normal_values(threshold: float, closed: bool) -> None:
    """D-olive-3, D-olive-4."""
    plan = ovp.plan(Ovp(INT4, AbFloat(2, 1, 2), threshold=threshold, closed=closed))
    assert plan
    below, above = (float(np.int32(plan.boundary + step).view(np.float32)) for step in (0, 1))

    assert (below < threshold <= above) if closed else (below <= threshold < above)


def misleading(length: int, beginning: float) -> np.ndarray:
    """Rows whose first elements want other scales than the whole: what looks likely at first does not win."""
    rows = np.random.default_rng(3).standard_normal((6, length)).astype(np.float32)
    rows[:, : ovp.PIECE] *= np.float32(beginning)
    return rows


@pytest.mark.parametrize("beginning", [0.05, 1, 20])
@pytest.mark.parametrize("length", [ovp.PIECE + 2, 4 * ovp.PIECE, 7 * ovp.PIECE + 6])
@pytest.mark.parametrize("fmt", FORMATS)
def test_only_candidates_that_cannot_win_are_left_out(fmt: Ovp, length: int, beginning: float) -> None:
    """An error is whole, or infinity where another candidate's whole one is less: every least one is there."""
    rows, count = misleading(length, beginning), 6 * ovp.LIKELY
    spread = np.abs(rows).max(axis=1)[:, None] / np.float32(fmt.normal.largest)
    scales = np.ascontiguousarray(spread * np.linspace(0.01, 2, count, dtype=np.float32))
    whole = np.empty(scales.shape)
    for column in range(count):
        off = fmt.encode(rows, scales[:, column]).decode() * scales[:, column, None].astype(np.float64) - rows
        whole[:, column] = [in_order(row) for row in (off * off).tolist()]
    least, each = whole.min(axis=1, keepdims=True), np.arange(len(rows))
    equal = (whole.argmin(axis=1) + count // 2) % count  # far from the winner, and no worse
    scales[each, equal], whole[each, equal] = scales[each, whole.argmin(axis=1)], least[:, 0]
    found = np.full(scales.shape, np.inf)
    getattr(ovp, name_of(fmt, "errors"))(rows, scales, found, ovp.plan(fmt), ovp.special(fmt))

    there = np.isfinite(found)
    assert found[there].tobytes() == whole[there].tobytes()
    assert (whole[~there] > np.broadcast_to(least, whole.shape)[~there]).all()
    assert beginning != 1 or not there.all(), "and some are left out"


@pytest.mark.parametrize(
    ("least", "first"), [(0, 0), (ovp.LIKELY, ovp.LIKELY // 2), (4 * ovp.LIKELY - 1, 3 * ovp.LIKELY)]
)
def test_likely_candidates_surround_the_least_error(least: int, first: int) -> None:
    error = np.ones(4 * ovp.LIKELY)
    error[least] = 0

    assert ovp.likely(error) == first


def test_what_looks_likely_at_first_need_not_win() -> None:
    """The rows above detect a bound that is too low: the winner is outside the candidates that finish first."""
    outside = 0
    for beginning in (0.05, 20):
        rows = misleading(4 * ovp.PIECE, beginning)
        spread = np.abs(rows).max(axis=1)[:, None] / np.float32(OVP_INT4.normal.largest)
        scales = np.ascontiguousarray(spread * np.linspace(0.01, 2, 6 * ovp.LIKELY, dtype=np.float32))
        for row, each in zip(rows, scales, strict=True):
            errors = []
            for part in (row[: ovp.PIECE], row):
                off = OVP_INT4.encode(np.tile(part, (len(each), 1)), each).decode() * each[:, None] - part
                errors.append((off * off).sum(axis=1))
            first = int(ovp.likely(errors[0]))
            outside += not first <= int(np.argmin(errors[1])) < first + ovp.LIKELY

    assert outside > 3
