"""Which tokens fall to fewer bits: every length against the oracle, step by step and from scratch."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8
from refemu.units.harmonia import bit_allocator
from refemu.units.harmonia.bit_allocator import Allocation, BitAllocator
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [
    pytest.param(bit_allocator.run, id="unit"),
    pytest.param(bit_allocator.UNIT.run_compiled, id="compiled"),
]
SIZES: list[dict[str, int]] = [
    {},
    {"n_initial": 40, "n_local": 16},
    {"n_initial": 0, "n_local": 1},
    {"n_initial": 64, "n_local": 96},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bits_of_every_length_equal_the_oracle(sizes: dict[str, int]) -> None:
    """[harmonia §III-B, Fig. 8] D-harmonia-17, D-harmonia-18: K by tokens, V by whole groups."""
    for length in [*range(200), 1000, 4096]:
        k, v = Allocation(**sizes).bits(length)

        assert (k.tolist(), v.tolist()) == units.bits_at(length, **sizes)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("prompt", [0, 1, 31, 32, 33, 63, 64, 95, 96, 97, 127, 128, 129])
def test_appended_tokens_demote_what_the_oracle_demotes(run: Any, sizes: dict[str, int], prompt: int) -> None:
    """[harmonia §III-B]: at most one K token and one V group at a time, never back; D-harmonia-19: none by a prompt."""
    result = run([prompt] + [0] * 150, **sizes)
    tokens = result.tokens.tolist()
    first = 0 if prompt == 0 else 1
    assert tokens == list(range(max(prompt, 1), max(prompt, 1) + 151))

    for at in range(first, 151):
        k, v = units.demoted(tokens[at], **sizes)
        assert ([result.k_token[at]] if result.demote_k[at] else []) == k
        assert ([result.v_group[at]] if result.demote_v[at] else []) == v
    low = [[bits.count(4) for bits in units.bits_at(length, **sizes)] for length in tokens]
    assert [list(pair) for pair in zip(result.low_tokens.tolist(), result.low_groups.tolist(), strict=True)] == low
    assert (result.demoted_tokens, result.demoted_groups) == (result.demote_k.sum(), result.demote_v.sum())


def test_groups_fall_beyond_96_at_multiples_of_32() -> None:
    """[harmonia §III-B]: 32 initial, 64 local; the initial tokens are one group of V and the window of the offsets."""
    result = bit_allocator.run([0] * 160)

    assert not result.low_tokens[:96].any() and result.low_tokens[96] == 1 and result.k_token[96] == 32
    assert np.flatnonzero(result.demote_v).tolist() == [127, 159] and result.v_group[[127, 159]].tolist() == [1, 2]


@pytest.mark.parametrize(("tokens", "low"), [(4000, Fraction(976, 1000)), (4096, Fraction(125, 128))])
def test_share_of_low_tokens_at_4k(tokens: int, low: Fraction) -> None:
    """[harmonia §III-B] 97.6 % and 2.4 % "at 4K": exact at 4000 tokens, 97.66 and 2.34 % at 4096."""
    allocator = BitAllocator()
    allocator.step(tokens)

    assert allocator.fraction_low() == low == units.fraction_low(tokens)
    assert Fraction(int((allocator.bits()[0] == 4).sum()), tokens) == low


@pytest.mark.parametrize(
    ("tokens", "with_exponent", "without"), [(4000, "3.0463", "3.1397"), (4096, "3.0476", "3.1411")]
)
def test_reduction_at_4k(tokens: int, with_exponent: str, without: str) -> None:
    """[harmonia §III-B] 3.05 times less than FP16; the abstract's 31.25 % leaves exponents and 8-bit tokens out."""
    low = len(Allocation().low_tokens(tokens))
    stored = [fmt.encode(np.ones((count, 64), np.float16)) for fmt, count in ((BFP8, tokens - low), (BFP4, low))]
    ratios = [
        Fraction(16 * 64 * tokens, stored[0].storage_bits(exponent) + stored[1].storage_bits(exponent))
        for exponent in (True, False)
    ]

    assert [f"{float(ratio):.4f}" for ratio in ratios] == [with_exponent, without]
    assert round(ratios[0], 2) == Fraction("3.05")
    assert Fraction(BFP4.encode(np.ones(64, np.float16)).storage_bits(False), 16 * 64) == Fraction(5, 16)


def test_equal_bits_switch_the_allocation_off() -> None:
    """[harmonia Fig. 5]: sweeps of one width."""
    assert not bit_allocator.run([0] * 200, high=4, low=4).low_tokens.any()
    assert set(Allocation(high=6, low=6).bits(300)[0].tolist()) == {6}


@settings(deadline=None, max_examples=30)
@given(n_initial=st.integers(0, 70), n_local=st.integers(0, 70), group=st.integers(1, 40), prompt=st.integers(0, 80))
def test_step_by_step_equals_from_scratch(n_initial: int, n_local: int, group: int, prompt: int) -> None:
    allocator = BitAllocator(n_initial, n_local, 8, 4, group)
    for state in allocator.steps([prompt] + [0] * 80):
        k, v = allocator.bits()
        assert (state.low_tokens, state.low_groups) == ((k == 4).sum(), (v == 4).sum())
    assert bit_allocator.UNIT.run_compiled(
        [prompt] + [0] * 80, n_initial=n_initial, n_local=n_local, group=group
    ).equals(bit_allocator.run([prompt] + [0] * 80, n_initial=n_initial, n_local=n_local, group=group))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param(
            {"prefill": [5, 5]}, Refused, "prefill of 5 tokens needs an empty cache, got 5 tokens", id="prefill"
        ),
        pytest.param({"prefill": [0], "n_local": -1}, Refused, "n_local must be in .*, got -1", id="n_local"),
        pytest.param({"prefill": [0], "n_initial": -1}, Refused, "n_initial must be in .*, got -1", id="n_initial"),
        pytest.param({"prefill": [0], "low": 9}, Refused, r"low must be in \[1, 8\], got 9", id="low above high"),
        pytest.param({"prefill": [0], "high": 12}, Refused, r"high must be in \[1, 11\], got 12", id="high"),
        pytest.param({"prefill": 3}, RefusedType, "at least one port must have an axis", id="scalar"),
    ],
)
def test_bit_allocator_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**arguments)


def test_rejected_prefill_changes_nothing() -> None:
    allocator = BitAllocator()
    before = allocator.step(0)
    with pytest.raises(Refused, match="needs an empty cache"):
        allocator.step(3)

    assert allocator.snapshot() == before
    with pytest.raises(Refused, match="inputs of steps must be one sequence"):
        list(allocator.steps(np.zeros((2, 2), int)))


def test_bit_allocator_repr_evaluates_back() -> None:
    assert repr(BitAllocator(1, 2, 7, 3, 16)) == "BitAllocator(n_initial=1, n_local=2, high=7, low=3, group=16)"
