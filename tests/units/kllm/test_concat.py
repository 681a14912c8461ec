"""Concat is a bijection that knows which operand came first."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from refemu.formats import Codebook, cartesian
from refemu.units.kllm import concat
from refemu.units.kllm.concat import Concat
from refemu.units.stepping import Result
from tests.oracles.kllm import formats

IMPLEMENTATIONS = [pytest.param(concat.run, id="unit"), pytest.param(concat.UNIT.run_compiled, id="compiled")]
Run = Callable[..., Result]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_all_900_pairs_of_indices(run: Run) -> None:
    """[kllm §III-B], D-kllm-6: of every pair of widths, each register value once, without gaps."""
    pairs = 0
    for a_bits, b_bits in product(range(1, 5), repeat=2):
        a, b = (axis.ravel() for axis in np.meshgrid(np.arange(1 << a_bits), np.arange(1 << b_bits), indexing="ij"))
        result = run(a, b, a_bits=a_bits, b_bits=b_bits)
        assert result.q.tolist() == list(range(1 << (a_bits + b_bits)))
        assert result.q.tolist() == [formats.concat(i, j, b_bits) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
        pairs += result.concats

    assert pairs == 900


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_exchanged_operands_give_another_index_of_same_product(run: Run) -> None:
    """[kllm §III-B]: the concatenation does not commute, products of one codebook do."""
    book = Codebook(4, np.float16(np.linspace(-1, 1, 16)))
    table = cartesian(book, book)
    a, b = (axis.ravel() for axis in np.triu_indices(16, 1))

    assert not np.any(run(a, b).q == run(b, a).q)
    assert np.array_equal(table.values[run(a, b).q], table.values[run(b, a).q])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_the_worked_column_of_eight_positions(run: Run) -> None:
    """[kllm §III-B, Fig. 3a]: one and two bits."""
    assert run([0, 1, 1, 0, 1, 0, 0, 1], [3, 0, 2, 2, 1, 3, 0, 1], a_bits=1, b_bits=2).q.tolist() == [
        3,
        4,
        6,
        2,
        5,
        3,
        0,
        5,
    ]


def test_the_register_holds_the_last_edge() -> None:
    """[kllm §IV-A]: "stores the result in an 8-bit register"."""
    device = Concat(3, 4)

    assert device.snapshot().q == 0
    assert [device.step(a, b).q for a, b in ((5, 9), (0, 0), (7, 15))] == [0x59, 0, 0x7F]
    assert device.snapshot().concats == 3
    assert repr(device) == "Concat(a_bits=3, b_bits=4)"


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("a", "b", "options", "error", "message"),
    [
        ([16], [0], {}, ValueError, r"concat: a 16 at index \(0,\) is outside \[0, 16\)"),
        ([1, 4], [0, 0], {"a_bits": 2}, ValueError, r"concat: a 4 at index \(1,\) is outside \[0, 4\)"),
        ([0], [-1], {}, ValueError, r"concat: b -1 at index \(0,\) is outside"),
        ([0], [8], {"b_bits": 3}, ValueError, r"concat: b 8 at index \(0,\) is outside \[0, 8\)"),
        ([0], [0.5], {}, TypeError, "concat.b: integers are needed"),
        (0, 0, {}, TypeError, "at least one port must have an axis"),
        ([0], [0], {"a_bits": 5}, ValueError, r"concat: a_bits must be in \[1, 4\], got 5"),
        ([0], [0], {"b_bits": 0}, ValueError, r"concat: b_bits must be in \[1, 4\], got 0"),
    ],
    ids=["16", "a", "negative", "b", "real", "scalars", "a_bits", "b_bits"],
)
def test_concat_rejects_invalid_inputs(
    run: Run, a: Any, b: Any, options: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(a, b, **options)


def test_steps_takes_one_device() -> None:
    with pytest.raises(ValueError, match=r"one sequence of events, got shape \(2, 2\)"):
        list(Concat().steps([[0, 1], [1, 0]], 3))
