"""Factors of offline smoothing: their conditions, their file, and what they leave unchanged."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.schemes.harmonia import smoothing
from refemu.models.schemes.harmonia.smoothing import Smoothing


def sizes(interleaved: bool = True) -> ModelConfig:
    return ModelConfig(
        blocks=2, width=8, ffn=8, heads=6, kv_heads=2, head_dim=6, vocab=5, context=9, rope_interleaved=interleaved
    )


def some(interleaved: bool = True) -> Smoothing:
    s = np.empty((2, 2, 6), np.float32)
    s[..., smoothing.pairs(sizes(interleaved))] = (1 + np.arange(12, dtype=np.float32)).reshape(2, 2, 3, 1) / 4
    return Smoothing({"model": "some", "low": 4}, s)


def rotated(x: list[Fraction], cos: Fraction, sin: Fraction, pairs: list[list[int]]) -> list[Fraction]:
    out = list(x)
    for i, j in pairs:
        out[i], out[j] = x[i] * cos - x[j] * sin, x[i] * sin + x[j] * cos
    return out


@pytest.mark.parametrize("interleaved", [True, False])
def test_paired_factors_leave_every_score_unchanged(interleaved: bool) -> None:
    """[harmonia §III-C, Eq. 1-2] in rationals, after a rotation; with unequal factors in a pair the scores change."""
    pairs = smoothing.pairs(sizes(interleaved)).tolist()
    s = [Fraction(float(value)) for value in some(interleaved).s[1, 0]]
    random = np.random.default_rng(0)
    q, k = ([Fraction(int(value), 8) for value in row] for row in random.integers(-99, 100, (2, 6)))
    turn = Fraction(3, 5), Fraction(4, 5)

    def score(a: list[Fraction], b: list[Fraction]) -> Fraction:
        first, second = rotated(a, *turn, pairs), rotated(b, Fraction(5, 13), Fraction(12, 13), pairs)
        return sum((x * y for x, y in zip(first, second, strict=True)), Fraction(0))

    def smoothed(factors: list[Fraction]) -> Fraction:
        return score([x / f for x, f in zip(q, factors, strict=True)], [x * f for x, f in zip(k, factors, strict=True)])

    assert smoothed(s) == score(q, k)
    assert smoothed([*s[:-1], s[-1] * 2]) != score(q, k)


def test_query_heads_share_factors_of_their_kv_head() -> None:
    """[harmonia §III-C] six query heads on two KV heads."""
    found = smoothing.spread(some().s[0], 6)

    assert np.array_equal(found, some().s[0][[0, 0, 0, 1, 1, 1]])


def test_pairs_are_those_of_the_rotation() -> None:
    assert smoothing.pairs(sizes()).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert smoothing.pairs(sizes(False)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert smoothing.pairs(replace(sizes(), positions="learned")).tolist() == [[0], [1], [2], [3], [4], [5]]


def test_file_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    some().save(path)
    found = smoothing.load(path)

    assert (found.description, found.s.tobytes()) == (some().description, some().s.tobytes())
    assert path.read_bytes() == found.to_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["some.npz"]


@pytest.mark.parametrize("name", ["tiny", "smollm2-135m"])
def test_factors_ship_with_the_package(name: str) -> None:
    """D-harmonia-37: they are data, so no run repeats the search; each is a power of 2 to a multiple of 1/64."""
    found = smoothing.shipped(name)
    assert found is not None
    steps = 64 * np.log2(found.s.astype(np.float64))

    assert found.description["model"] == name
    assert np.abs(steps - np.rint(steps)).max() < 1e-4 and np.abs(steps).max() <= 192
    assert (found.s != 1).any(axis=-1).all()


def test_shipped_factors_of_tiny_fit_it() -> None:
    found: Any = smoothing.shipped("tiny")
    model = models.load("tiny")

    assert found.require(model.config, "tiny") is found
    assert found.description["weights_sha256"] == model.sha256
    assert smoothing.shipped("no such model") is None


def changed(index: tuple[int, ...], value: float) -> np.ndarray:
    s = some().s.copy()
    s[index] = value
    return s


@pytest.mark.parametrize(
    ("s", "message"),
    [
        (changed((0, 0, 0), 0), r"must be positive and finite, got 0\.0 at index \(0, 0, 0\)"),
        (changed((1, 1, 4), np.inf), r"must be positive and finite, got inf at index \(1, 1, 4\)"),
        (changed((0, 1, 2), np.nan), "must be positive and finite, got nan"),
        (changed((1, 0, 3), 9), r"rotary pair \(2, 3\) of KV head 0 in block 1 must be equal, got 2\.0 and 9\.0"),
        (some().s[:1], r"must be float32 \(2, 2, 6\), got float32 \(1, 2, 6\)"),
        (some().s.astype(np.float64), "must be float32 .*, got float64"),
    ],
    ids=["zero", "infinite", "nan", "pair", "shape", "dtype"],
)
def test_invalid_factors_are_rejected(s: np.ndarray, message: str) -> None:
    with pytest.raises(Refused, match=f"smoothing of some: .*{message}"):
        Smoothing({}, s).require(sizes(), "some")


def test_invalid_files_are_rejected(tmp_path: Path) -> None:
    path, empty = tmp_path / "a.npz", tmp_path / "b.npz"
    path.write_bytes(some().to_bytes()[:-9])
    np.savez(empty, description=np.frombuffer(b'{"version":2}', np.uint8), s=some().s)
    for where, message in (
        (path, "not a readable smoothing"),
        (tmp_path / "c.npz", "no such file"),
        (empty, "version must be 1, got 2"),
    ):
        with pytest.raises(Refused, match=message):
            smoothing.load(where)


def test_smoothing_repr() -> None:
    assert repr(some()) == "Smoothing('some', (2, 2, 6))"
