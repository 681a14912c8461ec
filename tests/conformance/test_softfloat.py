"""`fp16_mac`, configuration `ieee`, against Berkeley SoftFloat 3e (softfloatpy): results and flags, every direction.

Results that are NaN are compared as "is NaN": refemu's is 0x7E00 (D-arith-1), SoftFloat's keeps a payload. Nothing else
is left out. SoftFloat's codes of directions and its bits of flags are RISC-V's, as refemu's are. Operands: TestFloat's
of level 1, whose words are every exponent below with every fraction below, and drawn ones.
"""

import functools
import importlib
import itertools
from typing import Any

import numpy as np
import pytest

from refemu.arith import prng
from refemu.units.kllm import fp16_mac
from refemu.units.kllm.fp16_mac import DIRECTIONS
from tests.conformance.conftest import absent
from tests.oracles import ieee

TESTFLOAT = "testfloat/testfloat_f16_level1"
EXPONENTS = (0x0000, 0x0400, 0x1000, 0x3400, 0x3800, 0x3C00, 0x4000, 0x4400, 0x6800, 0x7800, 0x7C00)
FRACTIONS = (0x000, 0x001, 0x3FE, 0x3FF)
WORDS = [sign | high | low for sign, high, low in itertools.product((0, 0x8000), EXPONENTS, FRACTIONS)]
EVERY = pytest.mark.parametrize("direction", DIRECTIONS)
BOTH = pytest.mark.parametrize("tininess", ["after", "before"])
IEEE, SEPARATE = (fp16_mac.UNIT.configs[name] for name in ("ieee", "ieee_separate"))
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def softfloat() -> Any:
    """The module softfloatpy."""
    try:
        return importlib.import_module("softfloatpy")
    except ModuleNotFoundError:
        absent("softfloatpy is not installed: pip install -e '.[conformance]'")


@functools.cache
def numbers(module: Any) -> list[Any]:
    """SoftFloat's number of every word."""
    return [module.Float16.from_bytes(word.to_bytes(2, "big")) for word in range(1 << 16)]


def answers(softfloat: Any, operands: Arrays, direction: str, tininess: str) -> tuple[np.ndarray, np.ndarray]:
    """SoftFloat's words and flags of a * b + c."""
    softfloat.set_rounding_mode(softfloat.RoundingMode(DIRECTIONS.index(direction)))
    softfloat.set_tininess_mode(softfloat.TininessMode[f"{tininess.upper()}_ROUNDING"])
    table, clear, raised = numbers(softfloat), softfloat.set_exception_flags, softfloat.get_exception_flags
    words, flags = bytearray(), bytearray()
    for a, b, c in zip(*(array.tolist() for array in operands), strict=True):
        clear(0)
        words += softfloat.f16_mul_add(table[a], table[b], table[c]).to_bytes()
        flags.append(raised())
    return np.frombuffer(words, ">u2").astype(np.uint16), np.frombuffer(flags, np.uint8)


def differing(softfloat: Any, operands: Arrays, direction: str, tininess: str) -> tuple[list[int], list[int]]:
    """Rows in which words differ and are not NaN on both sides, and rows in which flags do; all flags were met."""
    config: dict[str, Any] = {"rounding": "fp16_fma", "direction": "dynamic", "ieee_flags": True, "tininess": tininess}
    result = fp16_mac.UNIT.run_compiled(*operands, DIRECTIONS.index(direction), **config)
    words, flags = answers(softfloat, operands, direction, tininess)
    nan = (words & 0x7FFF > 0x7C00) & (result.y == 0x7E00)
    assert result.y.size == words.size > 2000 and (~nan).sum() > words.size // 3
    assert {bit for bit in (16, 4, 2, 1) if (flags & bit).any()} == {16, 4, 2, 1}
    return np.flatnonzero((result.y != words) & ~nan).tolist(), np.flatnonzero(result.fflags != flags).tolist()


def drawn(count: int) -> Arrays:
    """Seeded triples: any words in half of the rows, in the others sums whose terms meet, a quarter of them tiny."""
    a, b, c, d = (prng.words(prng.stream(f"softfloat/{name}", 0), 0, count).view(np.int64) for name in "abcd")
    x, y, z = a & 0xFFFF, b & 0xFFFF, c & 0xFFFF
    place = ((x >> 10 & 31) + (y >> 10 & 31) - 15).clip(0, 30) + (d >> 8 & 15) % 13 - 6  # of the product, or near it
    meets = z & 0x83FF | place.clip(0, 30) << 10
    half = d & 1 == 1
    low = half & (d & 6 == 0)
    x = np.where(low, x & 0x83FF | (a >> 32 & 7) + 4 << 10, x)
    y = np.where(low, y & 0x83FF | (b >> 32 & 3) + 4 << 10, y)
    z = np.where(low, z & 0x87FF, np.where(half, meets, z))
    return tuple(array.astype(np.uint16) for array in (x, y, z))  # type: ignore[return-value]


@BOTH
@EVERY
def test_a_sample_of_drawn_operands(softfloat: Any, direction: str, tininess: str) -> None:
    assert differing(softfloat, drawn(20_000), direction, tininess) == ([], [])


@pytest.mark.long
@BOTH
@EVERY
def test_a_million_drawn_operands(softfloat: Any, direction: str, tininess: str) -> None:
    assert differing(softfloat, drawn(1_000_000), direction, tininess) == ([], [])


def test_words_of_testfloat(reference: Any) -> None:
    """Its additions of level 1 meet all pairs of these words, so that these are its words."""
    pairs = set(map(tuple, reference(TESTFLOAT)["f16_add"][:, :2].tolist()))

    assert len(WORDS) == 88 and set(itertools.product(WORDS, WORDS)) <= pairs


@pytest.mark.long
@BOTH
@EVERY
def test_all_triples_of_testfloats_words(softfloat: Any, direction: str, tininess: str) -> None:
    """88**3 triples: level 1 of TestFloat less its random operands."""
    a, b, c = (array.ravel().astype(np.uint16) for array in np.meshgrid(WORDS, WORDS, WORDS, indexing="ij"))

    assert differing(softfloat, (a, b, c), direction, tininess) == ([], [])


@pytest.mark.long
@pytest.mark.parametrize("function", ["f16_mulAdd", "f16_mulAdd_hard"])
@EVERY
def test_operands_that_testfloat_drew(softfloat: Any, reference: Any, function: str, direction: str) -> None:
    """Its own rows, random operands included, and those that float32 gets wrong."""
    a, b, c = reference(TESTFLOAT)[function][:, :3].T
    if function == "f16_mulAdd":
        assert differing(softfloat, (a, b, c), direction, "after") == ([], [])
    else:  # no NaN and no overflow there
        result = fp16_mac.UNIT.run_compiled(a, b, c, DIRECTIONS.index(direction), **IEEE)
        words, flags = answers(softfloat, (a, b, c), direction, "after")
        assert np.array_equal(result.y, words) and np.array_equal(result.fflags, flags)


def test_testfloats_own_answers_and_flags(reference: Any) -> None:
    """To nearest even, tininess after rounding: what the program `testfloat_gen` wrote."""
    for function in ("f16_mulAdd", "f16_mulAdd_hard"):
        a, b, c, words, flags = reference(TESTFLOAT)[function].T
        result = fp16_mac.UNIT.run_compiled(a, b, c, 0, **IEEE)
        nan = (words & 0x7FFF > 0x7C00) & (result.y == 0x7E00)

        assert np.array_equal(result.y[~nan], words[~nan]) and np.array_equal(result.fflags, flags)


@EVERY
def test_the_oracle_of_the_unit_against_softfloat(softfloat: Any, direction: str) -> None:
    """An oracle that is wrong would prove nothing."""
    operands: Arrays = tuple(array[:2000] for array in drawn(20_000))  # type: ignore[assignment]
    for tininess in ("after", "before"):
        words, flags = answers(softfloat, operands, direction, tininess)
        words = np.where(words & 0x7FFF > 0x7C00, np.uint16(0x7E00), words)
        rows = zip(*(array.tolist() for array in operands), strict=True)
        want = list(zip(words.tolist(), flags.tolist(), strict=True))
        assert [ieee.fma(a, b, c, direction, tininess) for a, b, c in rows] == want


def test_products_and_sums_by_themselves(softfloat: Any) -> None:
    """D-arith-26: `ieee_separate` is SoftFloat's product, then its sum, with the flags of both."""
    operands = drawn(20_000)
    for direction in DIRECTIONS:
        result = fp16_mac.UNIT.run_compiled(*operands, DIRECTIONS.index(direction), **SEPARATE)
        softfloat.set_rounding_mode(softfloat.RoundingMode(DIRECTIONS.index(direction)))
        softfloat.set_tininess_mode(softfloat.TininessMode.AFTER_ROUNDING)
        table, words, flags = numbers(softfloat), bytearray(), bytearray()
        for a, b, c in zip(*(array.tolist() for array in operands), strict=True):
            softfloat.set_exception_flags(0)
            product = softfloat.f16_mul(table[a], table[b])
            words += softfloat.f16_add(product, table[c]).to_bytes()
            flags.append(softfloat.get_exception_flags())
        y = np.frombuffer(words, ">u2").astype(np.uint16)
        nan = (y & 0x7FFF > 0x7C00) & (result.y == 0x7E00)
        assert np.array_equal(result.y[~nan], y[~nan]) and np.array_equal(result.fflags, np.frombuffer(flags, np.uint8))
