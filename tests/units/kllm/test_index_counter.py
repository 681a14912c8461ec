"""The index counter against a dictionary: +1, +n, chunks, validity, clearing, widths."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.kllm import index_counter
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.kllm.index_counter import compiled as index_counter_compiled
from tests.oracles.kllm import units

IMPLEMENTATIONS = [
    pytest.param(index_counter.counts, id="unit"),
    pytest.param(index_counter_compiled.counts, id="compiled"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_columns(run: Any) -> None:
    """[kllm §III-B1, §III-B2] with the dimensions of Fig. 3: distribution of indices, and the sums of integers."""
    plain = run([3, 4, 6, 2, 5, 3, 0, 5], 3)
    scores = run([3, 0, 2, 2, 1, 3, 0, 1], 2, [3, 0, 1, 2, 1, 3, 0, 2])

    assert plain.count.tolist() == [1, 0, 1, 2, 1, 2, 1, 0] and plain.count.dtype == np.int64
    assert scores.count.tolist() == [0, 3, 3, 6]
    assert (plain.indices, plain.cycles, plain.count_bits, scores.count_bits) == (8, 1, 2, 3)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_counts_equal_the_oracle(run: Any, data: st.DataObject) -> None:
    """D-kllm-13: what is not valid may carry any index, and counts sum to K less the positions left out."""
    bits, k = data.draw(st.integers(1, 8)), data.draw(st.integers(0, 70))
    index = data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=k, max_size=k))
    valid = data.draw(st.lists(st.booleans(), min_size=k, max_size=k))
    amount = data.draw(st.none() | st.lists(st.integers(0, 255), min_size=k, max_size=k))
    wild = [i if v else 999 for i, v in zip(index, valid, strict=True)]
    result = run(
        np.array(wild, np.int64),
        bits,
        None if amount is None else np.array(amount, np.int64),
        valid=np.array(valid, np.bool_),
    )

    assert result.count.tolist() == units.counts(index, [int(v) for v in valid], 1 << bits, amount)
    assert (result.indices, result.cycles) == (valid.count(True), -(-k // 16))
    assert amount is not None or int(result.count.sum()) == valid.count(True)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=50), st.data())
def test_plus_n_equals_n_times_plus_one(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    """[kllm §III-B2] and the sums of two parts are the counts of the whole."""
    index, amount = ([pair[i] for pair in pairs] for i in (0, 1))
    repeated = data.draw(st.permutations([i for i, n in pairs for _ in range(n)]))
    whole, ones = (
        index_counter_compiled.counts(np.array(index, np.int64), 4, np.array(amount, np.int64)),
        (index_counter_compiled.counts(np.array(part, np.int64), 4).count for part in (repeated[:20], repeated[20:])),
    )

    assert np.array_equal(whole.count, sum(ones))


def test_compiled_form_equals_unit_over_many_vectors() -> None:
    index = np.random.default_rng(0).integers(0, 256, (3, 2, 100))

    assert index_counter.counts(index, 8).equals(index_counter_compiled.counts(index, 8))
    assert index_counter.counts(index, 8).count.shape == (3, 2, 256)


def test_sixteen_positions_a_cycle() -> None:
    """[kllm §IV-B] a 16-input design: one-hot rows of 2^n bits, their column sums, the registers."""
    counter = IndexCounter(2)
    state = counter.step(1, [1] * 15 + [3], [1] * 16)

    assert state.one_hot == (2,) * 15 + (8,) and state.sums == (0, 15, 0, 1) == state.count
    assert counter.step(0, [1] * 16, [1] * 8 + [0] * 8).count == (0, 23, 0, 1)
    assert counter.step(1, [0] * 16, [1] + [0] * 15).count == (1, 0, 0, 0)
    assert counter.clear().count == (0,) * 4 and counter.state.indices == 25


@pytest.mark.parametrize(("bits", "lanes", "amount_bits"), [(6, 1, 0), (6, 16, 3), (7, 3, 0), (8, 16, 8), (1, 2, 0)])
def test_registers_of_a_cycle_in_both_forms(bits: int, lanes: int, amount_bits: int) -> None:
    """Rows of 64 bits at most; of more than 64 columns, the sums that a lane is in."""
    unit, rng = index_counter.UNIT, np.random.default_rng(bits)
    config = unit.config(f"bits={bits},lanes={lanes},amount_bits={amount_bits},counter_bits=20")
    ports = unit.ports(config)
    inputs = {port.name: rng.integers(0, 1 << port.bits, (2, 5, *port.shape)) for port in ports.inputs}
    result = unit.evaluate(config, inputs)

    assert result.equals(unit.evaluate(config, inputs, jit=False))
    assert [port.name for port in ports.state] == (["one_hot", "sums"] if bits <= 6 else ["hits"])


def test_hits_are_sums_that_lane_is_in() -> None:
    state = IndexCounter(7).step(1, [5] * 3 + [9] * 13, [1, 1, 0, 1] + [0] * 12)

    assert state.hits == (2, 2, 0, 1) + (0,) * 12


@pytest.mark.parametrize("k", [4096, 4097])
def test_width_of_a_counter(k: int) -> None:
    """K = 4096 at one index needs 13 bits; amounts of four bits 16: 61,440 [kllm §IV-B]."""
    index = np.ones(k, np.int64)

    assert index_counter_compiled.counts(index, 8).count_bits == 13
    assert index_counter_compiled.counts(index, 8, 15 * index).count_bits == 16
    assert index_counter.counts(index, 8, counter_bits=13).count[1] == k


BAD = [
    pytest.param([0, 8], {}, Refused, r"index_counter: index must be in \[0, 8\), got 8 at index \(1,\)", id="index"),
    pytest.param(
        [0, -1], {}, Refused, r"index_counter: index must be in \[0, 8\), got -1 at index \(1,\)", id="negative index"
    ),
    pytest.param(
        [1], {"amount": [256]}, Refused, r"amount must be in \[0, 256\), got 256 at index \(0,\)", id="amount"
    ),
    pytest.param(
        [1], {"amount": [16], "amount_bits": 4}, Refused, r"amount must be in \[0, 16\), got 16", id="narrow amount"
    ),
    pytest.param([1], {"amount": [-1]}, Refused, "amount must be .*, got -1", id="negative amount"),
    pytest.param([1], {"amount": [1, 1]}, RefusedType, r"amount: must have shape \(1,\), got", id="shape of amounts"),
    pytest.param([1.0], {}, RefusedType, "integers are needed, got dtype float64", id="floats"),
    pytest.param(1, {}, RefusedType, "must have an axis of positions", id="scalar"),
    pytest.param([1], {"valid": [1]}, RefusedType, "valid: must be bool of shape", id="valid"),
    pytest.param([1] * 16, {"counter_bits": 4}, Refused, "count 16 of index 1 does not fit counter_bits=4", id="width"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("index", "options", "error", "message"), BAD)
def test_index_counter_rejects_invalid_inputs(
    run: Any, index: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(np.array(index), 3, **options)


def test_rejected_cycle_changes_nothing() -> None:
    counter = IndexCounter(3, counter_bits=4)
    before = counter.step(0, [1] * 15 + [0], [1] * 16)
    with pytest.raises(Refused, match="count 31 of index 1 does not fit"):
        counter.step(0, [1] * 16, [1] * 16)
    with pytest.raises(RefusedType, match="inputs must be clear, q, valid, got 4 by position"):
        counter.step(0, [1] * 16, [1] * 16, [1] * 16)

    assert counter.snapshot() == before


@pytest.mark.parametrize("wrong", [{"bits": 9}, {"lanes": 17}, {"lanes": 0}, {"amount_bits": 9}, {"counter_bits": 0}])
def test_index_counter_rejects_sizes(wrong: dict[str, int]) -> None:
    """A counter of [kllm Table I] has at most sixteen lanes."""
    with pytest.raises(Refused, match=f"index_counter: {next(iter(wrong))} must be in"):
        IndexCounter(**wrong)


@pytest.mark.parametrize("run", [index_counter.run, index_counter_compiled.run], ids=["unit", "compiled"])
def test_ports_reject_overflow(run: Any) -> None:
    with pytest.raises(Refused, match="does not fit counter_bits=5"):
        run(np.zeros(3, np.int64), np.ones((3, 16), np.int64), np.ones((3, 16), np.int64), bits=2, counter_bits=5)


def test_index_counter_repr_evaluates_back() -> None:
    assert repr(IndexCounter(4, 4)) == "IndexCounter(bits=4, amount_bits=4, counter_bits=16, lanes=16)"
