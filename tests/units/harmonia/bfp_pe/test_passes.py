"""The PE that takes passes compared with the one that takes groups: the same sums, made in the first slot."""

from typing import Any

import numpy as np
import pytest

from refemu.units.harmonia.bfp_pe import M8M4, M8M8, M8W4, NIBBLES, SLOTS, BfpPe, Pass, PassPe


def drawn(mode: int, groups: int, seed: int) -> tuple[Any, Pass]:
    """Register file and operands of b of a pass; unused groups are zeros."""
    rng = np.random.default_rng(seed)

    def lanes(top: int, each: int = 32) -> tuple[int, ...]:
        values = np.zeros((SLOTS, each), int)
        values[:groups] = rng.integers(0, top, (groups, each))
        return tuple(values.reshape(-1).tolist())

    file = lanes(2), lanes(256), tuple(8 + x % 16 for x in lanes(31, 1))
    signs = (0,) * 128 if mode == M8W4 else lanes(2)
    exponents = (0,) * SLOTS if mode == M8W4 else lanes(20, 1)
    factors = lanes(0x7C00, 1) if mode == M8W4 else (0,) * SLOTS
    return file, Pass(mode, 1, groups, lanes(256 if mode == M8M8 else 16), signs, exponents, factors)


@pytest.mark.parametrize(("mode", "groups"), [(M8W4, 4), (M8W4, 3), (M8M4, 4), (M8M4, 1), (M8M8, 2), (M8M8, 1)])
def test_a_pass_and_its_groups_one_by_one(mode: int, groups: int) -> None:
    """D-harmonia-40: equal accumulators, flags, latched sums and counters after every slot but the latched ones."""
    file, work = drawn(mode, groups, 10 * mode + groups)
    together, apart = PassPe(), BfpPe()
    together.fill(*file)
    together.begin_pass(work)
    assert together.state.psums == groups * NIBBLES[mode]
    made = together.state.latched

    for group in range(groups):
        some = slice(32 * group, 32 * group + 32)
        clear, *weights = work.of(group)
        apart.fill(file[0][some], file[1][some], file[2][group])
        apart.begin(mode, clear, *weights)
        for _ in range(NIBBLES[mode]):
            whole, one = together.slot(), apart.slot()
            assert (whole.acc, whole.flags, whole.slot) == (one.acc, one.flags, one.slot)
            assert whole.latched == made

    assert apart.state.latched == made
    for name in ("cycles", "macs", "macs4x8", "psums", "fusions", "fp_converts", "scale_mults", "fp32_adds", "passes"):
        assert getattr(together.state, name) == getattr(apart.state, name), name


def test_next_pass_comes_while_one_is_under_way() -> None:
    """D-harmonia-41."""
    file, work = drawn(M8M8, 2, 3)
    other, _ = drawn(M8M8, 2, 4)
    alone, busy = PassPe(), PassPe()
    for pe in (alone, busy):
        pe.fill(*file)
        pe.begin_pass(work)
        pe.slot()
    busy.fill(*other)
    ends = [[pe.slot() for _ in range(3)][-1] for pe in (alone, busy)]

    assert ends[0].acc == ends[1].acc and ends[1].current_mag == file[1] and ends[1].next_mag == other[1]
