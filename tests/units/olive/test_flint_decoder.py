"""The flint decoder against Table 3, the oracle and the format, on all 16 codes."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats import FLINT4
from refemu.units.olive import flint_decoder
from refemu.units.olive.flint_decoder import FLINT4_PAIRS, FlintDecoder
from tests.oracles.olive import units

IMPLEMENTATIONS = [
    pytest.param(flint_decoder.run, id="unit"),
    pytest.param(flint_decoder.UNIT.run_compiled, id="compiled"),
]
#: another decoder of the same values: odd integers as far as they go
ODD_PAIRS = ((0, 0), (0, 1), (1, 1), (0, 3), (4, 1), (3, 1), (2, 1), (1, 3))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_every_code_equals_the_oracle(run: Any) -> None:
    result = run(np.arange(16, dtype=np.uint8))

    assert list(zip(result.exponent.tolist(), result.base_int.tolist(), strict=True)) == [
        units.flint_decoder(code) for code in range(16)
    ]
    assert (result.exponent.dtype, result.base_int.dtype, result.decodes) == (np.uint8, np.int8, 16)


def test_values_are_those_of_table_and_of_format() -> None:
    """[olive Tbl. 3] flint4: 0 1 2 3 4 6 8 16, with either sign."""
    codes = FLINT4.codes()
    result = flint_decoder.run(codes)
    values = result.base_int.astype(np.int64) << result.exponent

    assert sorted(set(np.abs(values).tolist())) == [0, 1, 2, 3, 4, 6, 8, 16]
    assert values.tolist() == FLINT4.decode(codes).tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_other_pairs_give_the_same_values(run: Any) -> None:
    """D-olive-16: the pairs are a parameter; only base_int << exponent is fixed."""
    ours, other = run(np.arange(16)), run(np.arange(16), pairs=ODD_PAIRS)
    values = [(result.base_int.astype(int) << result.exponent).tolist() for result in (ours, other)]

    assert values[0] == values[1]
    assert (other.exponent[5], other.base_int[13]) == (3, -1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_identifier_is_zero(run: Any) -> None:
    result = run(0b1000)

    assert (int(result.exponent), int(result.base_int)) == (0, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        pytest.param(FLINT4_PAIRS[:7], "pairs must have 8 entries, got 7", id="seven"),
        pytest.param(((0, 1), *FLINT4_PAIRS[1:]), r"pairs\[0\] must have value 0, .*got \(0, 1\)", id="value"),
        pytest.param(
            (*FLINT4_PAIRS[:4], (1, 8), *FLINT4_PAIRS[5:]), r"pairs\[4\] must have value 16, .*got \(1, 8\)", id="width"
        ),
        pytest.param(((16, 0), *FLINT4_PAIRS[1:]), r"pairs\[0\] must have value 0, .*got \(16, 0\)", id="exponent"),
    ],
)
def test_impossible_pairs_are_rejected(run: Any, pairs: Any, message: str) -> None:
    with pytest.raises(Refused, match="flint_decoder: " + message):
        run(1, pairs=pairs)


def test_steps_count_their_codes() -> None:
    assert [(s.event, s.index, s.code, s.decodes) for s in FlintDecoder().steps([7, 12])] == [
        ("decode", 0, 7, 1),
        ("decode", 1, 12, 2),
    ]
