"""An empty simulation never passes row 0."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.make import rows
from refemu.units.unit import Cases
from tests.golden import fakes

WRAP = fakes.BLENDER.configs["wrap"]


def block(why: str, *pairs: tuple[int, int]) -> rows.Block:
    first, second = np.array(pairs).T
    return rows.evaluate(fakes.BLENDER, WRAP, Cases("edge", why, {"first": first, "second": second}))


def led(*blocks: rows.Block) -> Sequence[tuple[str, list[int]]]:
    found = rows.led(fakes.BLENDER, WRAP, list(blocks))
    return [(one.cases.why, one.arrays["in.first"][:, 0].tolist()) for one in found]


def test_detecting_first_case_is_unchanged() -> None:
    assert led(block("a", (5, 1), (0, 0)), block("b", (1, 1))) == [("a", [5, 0]), ("b", [1])]


def test_block_is_rotated_to_a_detecting_case() -> None:
    assert led(block("a", (0, 0), (5, 1), (6, 1))) == [("a", [5, 6, 0])]


def test_block_with_a_detecting_case_comes_first() -> None:
    assert led(block("a", (0, 0), (0, 0)), block("b", (3, 1)), block("c", (1, 1))) == [
        ("b", [3]),
        ("a", [0, 0]),
        ("c", [1]),
    ]


def test_compiled_blocks_compute_zeros_compiled() -> None:
    """A campaign's shard avoids the readable unit, which may take a tenth of a second a row."""
    unit = dataclasses.replace(fakes.BLENDER, run=lambda **ports: pytest.fail("the readable unit ran"))
    (found,) = rows.led(unit, WRAP, [block("a", (0, 0), (5, 1))], compiled_from=1)

    assert found.arrays["in.first"][:, 0].tolist() == [5, 0]


def test_case_of_another_kind_is_prepended() -> None:
    (why, first), rest = led(block("a", (0, 0)))

    assert why == "a worked example; here because a set must not begin with a row that an empty simulation passes"
    assert (first, rest) == ([5], ("a", [0]))


def test_answer_equal_to_zeros_detects_nothing() -> None:
    """`odd` inverted is 1 for zeros too, so only a different answer detects an absent device."""
    inverted = dataclasses.replace(
        fakes.BLENDER,
        run=lambda **ports: dataclasses.replace(
            fakes.blend(**ports),
            odd=1 - fakes.blend(**ports).odd,
            both=np.zeros((len(ports["first"]), 2), int),
            ratio=np.zeros(len(ports["first"]), np.float16),
        ),
    )
    cases = Cases("edge", "a", {"first": np.array([2, 4]), "second": np.array([1, 1])})

    with pytest.raises(Refused, match="blender: no case distinguishes a working device from an absent one"):
        rows.led(
            dataclasses.replace(inverted, cases=lambda config, kind, seed: [dataclasses.replace(cases, kind=kind)]),
            WRAP,
            [rows.evaluate(inverted, WRAP, cases)],
        )


def test_missing_cases_are_rejected() -> None:
    with pytest.raises(Refused, match="blender: must have cases of the wanted kinds, got none"):
        rows.led(fakes.BLENDER, WRAP, [])


def test_unit_rejecting_zeros_needs_only_an_answer() -> None:
    def picky(**ports: object) -> object:
        if not np.all(ports["first"]):
            raise Refused("zero")
        return fakes.blend(**ports)  # type: ignore[arg-type]

    unit = dataclasses.replace(fakes.BLENDER, run=picky)
    cases = Cases("edge", "a", {"first": np.array([5]), "second": np.array([1])})

    assert len(rows.led(unit, WRAP, [rows.evaluate(unit, WRAP, cases)])) == 1
