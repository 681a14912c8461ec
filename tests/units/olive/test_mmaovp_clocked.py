"""The clocked tensor core against the oracle, edge by edge: every output, register and counter."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.units.olive import mmaovp_clocked
from refemu.units.olive.mmaovp import CHUNKS, OPERATIONS, TYPES
from refemu.units.olive.mmaovp_clocked import UNIT, ClockedMmaOvp, State
from tests.golden import detecting
from tests.oracles import clocked
from tests.oracles.olive import units
from tests.units.clocked_rows import assert_rows, reset
from tests.units.olive.operands import KINDS

IMPLEMENTATIONS = [pytest.param(mmaovp_clocked.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
CONFIGS = [
    ("ovpi4", "ovpf4", "wrap"),
    ("ovpf4", "ovpi4", "saturate"),
    ("ovpi4", "ovpi4", "wrap"),
    ("ovpi8", "ovpi8", "saturate"),
    ("ovpi8", "ovpi8_repo", "wrap"),
]


def drawn(seed: int, rows: int, lanes: int, bits: int) -> np.ndarray:
    """Uniform words, and where a word says so a victim on one side."""
    words = prng.words(prng.stream("test_mmaovp_clocked", seed), 0, rows * lanes).reshape(rows, lanes) >> np.uint64(32)
    pairs = words.astype(np.int64) & ((1 << 2 * bits) - 1)
    return np.where(words >> np.uint64(28) < 4, pairs >> bits << bits | 1 << (bits - 1), pairs)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("a_type", "b_type", "overflow"), CONFIGS)
def test_rows_equal_the_oracle(run: Any, a_type: Any, b_type: Any, overflow: Any) -> None:
    """A start at once and often while busy, other operands in every row; one and a half tiles."""
    bits, lanes, rows = (8, 64, 200) if a_type.startswith("ovpi8") else (4, 128, 200)
    start = drawn(0, rows, 1, 4)[:, 0] % 3 == 0
    start[0] = start[OPERATIONS + 3 :] = True
    start[OPERATIONS : OPERATIONS + 3] = False
    a_pairs, b_pairs = drawn(1, rows, lanes, bits), drawn(2, rows, lanes, bits)
    c = drawn(3, rows, 64, 16) - 2**31
    bias_a, bias_b = drawn(4, rows, 2, 2).T
    columns = [start.astype(np.int64), a_pairs, b_pairs, bias_a, bias_b, c]
    config = {"a_type": a_type, "b_type": b_type, "overflow": overflow}
    normals, outliers = zip(*(KINDS[TYPES[kind]] for kind in (a_type, b_type)), strict=True)
    expected = clocked.rows(
        [(row[0], tuple(row[1:])) for row in zip(*(column.tolist() for column in columns), strict=True)],
        lambda operands: units.mmaovp_events(operands, normals, outliers, overflow),
        reset(UNIT, config),
    )

    assert_rows(UNIT, config, run(*columns, **config), list(expected))


def test_d_holds_partial_sums() -> None:
    """[olive §4.6] C at the start; then one element after the other gets its first and its second chunk of K."""
    core = ClockedMmaOvp()
    tile, other = ([0x11] * 128, [0x11] * 128, 2, 2, list(range(64))), ([0] * 128, [0] * 128, 0, 0, [7] * 64)
    states = [core.step(1, *tile), *(core.step(1, *other) for _ in range(OPERATIONS))]

    assert [state.d[:3] for state in states[:4]] == [(16, 1, 2), (32, 1, 2), (32, 17, 2), (32, 33, 2)]
    assert states[OPERATIONS - 1].d == tuple(place + 32 for place in range(64)) and states[OPERATIONS - 1].valid == 1
    assert states[OPERATIONS].d == (7,) * 64 and states[OPERATIONS].phase == 0
    assert [states[i].cycles for i in (14, 15, OPERATIONS - 1, OPERATIONS)] == [0, 1, 8, 8]


def test_mmaovp_clocked_rejects_two_widths() -> None:
    with pytest.raises(Refused, match="a_type and b_type must have one width, got ovpi4 and ovpi8"):
        ClockedMmaOvp("ovpi4", "ovpi8")


def test_mmaovp_clocked_repr_evaluates_back() -> None:
    assert repr(ClockedMmaOvp()) == "ClockedMmaOvp(a_type='ovpi4', b_type='ovpi4', overflow='wrap')"


class FirstElementOnly(ClockedMmaOvp):
    """Illegal pairs of the first element alone are noticed."""

    def _open(self, *inputs: Any) -> State:
        before = self.state.illegal
        state = super()._open(*inputs)
        if state.event == "edp" and state.phase >= CHUNKS:
            self.state = state = self.changed(illegal=before)
        return state


class SecondTileStops(ClockedMmaOvp):
    """After its third edge, the second tile since reset adds nothing."""

    def _open(self, *inputs: Any) -> State:
        before = self.state
        state = super()._open(*inputs)
        if state.operations > OPERATIONS + 3 and state.phase:
            self.state = state = self.changed(d=before.d)
        return state


@pytest.mark.parametrize("faulty", [FirstElementOnly, SecondTileStops])
def test_faults_after_the_first_edges_are_detected(faulty: type[ClockedMmaOvp]) -> None:
    found = detecting.by(detecting.drawn("mmaovp_clocked-i4_i4"), faulty)
    assert any(case.startswith("random") for case in found) and any(case.startswith("edge") for case in found)


def test_closing_rows_have_every_flag() -> None:
    blocks = detecting.drawn("mmaovp_clocked-i4_i4").blocks
    seen = np.bitwise_or.reduce(np.concatenate([block.flags.ravel() for block in blocks]))
    assert {name for name, flag in UNIT.flags.items() if seen >> flag.bit & 1} == set(UNIT.flags)
