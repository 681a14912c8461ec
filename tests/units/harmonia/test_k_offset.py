"""Offsets of keys: peaks, choices and halves of the oracle; softmax keeps its values; errors."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.harmonia import k_offset
from refemu.units.harmonia.k_offset import KOffsetGenerator, Offsets
from refemu.units.harmonia.k_offset import compiled as k_offset_compiled
from tests.arith.strategies import codes
from tests.formats.harmonia.bfp_words import words
from tests.oracles.harmonia import units

IMPLEMENTATIONS = [pytest.param(k_offset.run, id="unit"), pytest.param(k_offset.UNIT.run_compiled, id="compiled")]


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return finite(np.random.default_rng(seed).integers(0, 1 << 16, shape))


def finite(words: np.ndarray) -> np.ndarray:
    return np.where(words & 0x7C00 == 0x7C00, words ^ 0x4000, words).astype(np.uint16)


def events(rows: np.ndarray, window: int, chosen: int) -> dict[str, Any]:
    """The window, clocks until its tokens are out, the other tokens."""
    inside = min(window, len(rows))
    idle = np.zeros((chosen + inside, rows.shape[1]), np.uint16)
    valid = [1] * inside + [0] * len(idle) + [1] * (len(rows) - inside)
    last = [0] * (inside - 1) + [int(inside < window)] + [0] * (len(valid) - inside)
    return {"k": np.concatenate([rows[:inside], idle, rows[inside:]]), "valid": np.array(valid), "last": np.array(last)}


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("sign", ["signed", "unsigned"])
@pytest.mark.parametrize(
    ("scope", "heads", "k"),
    [("layer", 1, None), ("layer", 2, 3), ("head", 2, 2), ("head", 4, None), ("layer", 1, 0), ("layer", 1, 8)],
)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), tokens=st.integers(1, 9))
def test_offsets_and_keys_equal_the_oracle(
    run: Any, sign: str, scope: str, heads: int, k: int | None, data: st.DataObject, tokens: int
) -> None:
    """[harmonia §III-C, §IV-A (5)] D-harmonia-23, D-harmonia-24, D-harmonia-26: the window is the first 5 tokens."""
    some = data.draw(st.lists(words, min_size=1, max_size=40))
    rows = np.resize(np.array(some, np.uint16), (tokens, 8))
    head = 8 // heads if scope == "head" else None
    chosen = (max((head or 8) // 32, 1) if k is None else k) * (heads if head else 1)
    result = run(
        **events(rows, 5, chosen), channels=8, window=5, offset_k=k, offset_scope=scope, heads=heads, offset_sign=sign
    )
    offsets, selected = units.k_offsets(rows.tolist(), k, 5, head, sign == "signed")
    counters = units.offset_counters(tokens, 8, chosen // (heads if head else 1), 5, head)

    assert result.selected[-1].tolist() == [bool(one) for one in selected]
    assert result.offset[-1].tolist() == offsets
    shifted = [units.apply_offsets(row, offsets) for row in rows.tolist()]
    assert result.k_out[result.out_valid].tolist() == shifted
    assert {name: getattr(result, name) for name in counters} == counters


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("window", "word"),
    [
        ([0x4500, 0xC500], 0x4100),
        ([0xC500, 0x4500], 0xC100),
        ([0x3C00, 0xC880], 0xC480),
        ([0x0401], 0x0200),
        ([0x0403], 0x0202),
        ([0x83FF], 0x8200),
        ([0x8001], 0x8000),
    ],
    ids=["first of equals", "negative first", "negative peak", "field 1", "tie up", "field 0", "half of the least"],
)
def test_half_of_the_signed_peak(run: Any, window: list[int], word: int) -> None:
    """[harmonia §III-C] D-harmonia-23: rounded to even where a subnormal's last bit is lost."""
    given = events(np.array(window)[:, None], 32, 1)
    result = run(given["k"], given["valid"], given["last"], channels=1)

    assert result.offset[-1] == [word]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_channels_without_an_offset_pass_bit_for_bit(run: Any) -> None:
    """[harmonia §IV-A (5)]: also -0, and a chosen channel whose peak is 0, or whose offset is -0."""
    rows = np.array([[0x8000, 0x3C00, 0x8000], [0x0000, 0xBC00, 0x8000]])
    result = run(**events(rows, 2, 2), channels=3, window=2, offset_k=2)

    assert result.selected[-1].tolist() == [True, True, False] and result.offset[-1].tolist() == [0, 0x3800, 0]
    assert result.k_out[result.out_valid].tolist() == [[0x8000, 0x3800, 0x8000], [0, 0xBE00, 0x8000]]
    assert result.subtractions == 4

    minus = run(**events(np.array([[0x8001, 0x3C00], [0x8000, 0x3C00]]), 2, 2), channels=2, window=2, offset_k=2)
    assert minus.offset[-1].tolist() == [0x8000, 0x3800]
    assert minus.k_out[minus.out_valid].tolist() == [[0x8001, 0x3800], [0x8000, 0x3800]]


def test_offsets_leave_the_softmax_as_it_is() -> None:
    """[harmonia §III-C, Fig. 10, Eq. 2]: all keys lose the same offset, so all scores lose q . offset; D-harmonia-25,
    D-harmonia-26: exact in rationals, on keys after the rotary embedding whose differences are exact.
    """
    rng = np.random.default_rng(5)
    keys = rng.integers(-64, 65, (40, 64)).astype(np.float16)
    offset, selected = k_offset_compiled.select(Offsets(64, offset_k=6), keys.view(np.uint16))
    shifted = k_offset_compiled.shift(keys.view(np.uint16), offset).view(np.float16)
    q = [Fraction(int(one), 8) for one in rng.integers(-64, 65, 64)]
    scores = [
        [sum(a * Fraction(float(b)) for a, b in zip(q, key, strict=True)) for key in side] for side in (keys, shifted)
    ]

    assert int(selected.sum()) == 6 and offset.any()
    assert len({before - after for before, after in zip(*scores, strict=True)}) == 1


def test_signed_halves_narrow_and_unsigned_widen_channels() -> None:
    """[harmonia §III-C, Fig. 10] D-harmonia-23: keys between -11.5 and 0 end between 5.75 and -5.75, or at -17.25."""
    keys = np.linspace(-11.5, 0, 32).astype(np.float16)[:, None]
    for sign, peak in (("signed", 5.75), ("unsigned", 17.25)):
        offset, _ = k_offset_compiled.select(Offsets(1, offset_sign=sign), keys.view(np.uint16))

        assert np.abs(k_offset_compiled.shift(keys.view(np.uint16), offset).view(np.float16)).max() == peak


@pytest.mark.parametrize("seed", [0, 1])
def test_parts_for_matrices_equal_the_unit(seed: int) -> None:
    """[harmonia §IV-A (5)] the offsets of the first 32 tokens of 64 channels, two of them chosen (D-harmonia-24)."""
    rows = drawn((40, 64), seed)
    result = k_offset.run(**events(rows, 32, 2))
    offset, selected = k_offset_compiled.select(Offsets(64), rows)

    assert np.array_equal(selected, result.selected[-1]) and int(selected.sum()) == 2
    assert np.array_equal(offset, result.offset[-1])
    assert np.array_equal(k_offset_compiled.shift(rows, offset), result.k_out[result.out_valid])


def test_many_windows_have_the_offsets_of_each() -> None:
    """Windows shorter and longer than the 32 tokens that count."""
    for tokens in (5, 40):
        keys = drawn((2, 3, tokens, 64))
        offsets, selected = k_offset_compiled.select(Offsets(64), keys)
        each = [[k_offset_compiled.select(Offsets(64), window) for window in row] for row in keys]

        assert np.array_equal([[offset for offset, _ in row] for row in each], offsets)
        assert np.array_equal([[chosen for _, chosen in row] for row in each], selected)


def test_a_prompt_shorter_than_the_window_ends_it() -> None:
    """[harmonia §IV-A (5)]: a prompt of two tokens ends the window; its tokens leave first."""
    rows = drawn((3, 4), 2)
    device = KOffsetGenerator(4)
    for row, last in zip(rows[:2].tolist(), (0, 1), strict=True):
        device.step(row, 1, last)
    states = [device.go_on(), device.go_on(), device.go_on(), device.step(rows[2].tolist(), 1, 0), device.go_on()]
    whole = k_offset.run(**events(rows, 2, 1), channels=4, window=2)

    assert [state.event for state in states] == ["select", "apply", "apply", "apply", "idle"]
    assert [list(state.k_out) for state in states[1:4]] == whole.k_out[whole.out_valid].tolist()
    assert states[-1].gated_tokens == 1 and states[-1].comparisons == 8


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_compiled_form_equals_unit_on_any_sequence(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 16))
    rows = finite(data.draw(codes((count, 2), 16)))
    device = KOffsetGenerator(2, 3)
    valid, last = [], []
    for row in rows.tolist():
        valid.append(data.draw(st.integers(0, 1)) if device.state.ready else 0)
        last.append(data.draw(st.integers(0, 1)))
        device.step(tuple(row), valid[-1], last[-1])

    arguments: dict[str, Any] = {"channels": 2, "window": 3}
    assert k_offset.run(rows, valid, last, **arguments).equals(
        k_offset.UNIT.run_compiled(rows, valid, last, **arguments)
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"offset_k": 3}, Refused, r"offset_k must be in \[0, 2\], got 3", id="k above C"),
        pytest.param(
            {"offset_k": 2, "offset_scope": "head", "heads": 2}, Refused, r"offset_k must be in \[0, 1\]", id="head"
        ),
        pytest.param({"heads": 3}, Refused, "channels must be a multiple of heads, got 2 and 3", id="heads"),
        pytest.param(
            {"k": [[0, 0x7C00]]}, Refused, r"k_offset: k must be finite, got 0x7c00 at index \(0, 1\)", id="infinity"
        ),
        pytest.param({"k": [[0xFE01, 0]]}, Refused, r"k must be finite, got 0xfe01 at index \(0, 0\)", id="nan"),
        pytest.param(
            {"valid": [1, 1], "window": 1},
            Refused,
            "valid must be 0 until the window's tokens are out, got 1 in event 1",
            id="too early",
        ),
        pytest.param({"k": [[0] * 3]}, RefusedType, "k: the last axis must hold 2 lanes", id="width"),
        pytest.param({"offset_sign": "both"}, Refused, "offset_sign must be one of", id="sign"),
        pytest.param({"offset_scope": "row"}, Refused, "offset_scope must be one of", id="scope"),
    ],
)
def test_k_offset_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**{"k": [[0, 0]], "valid": 1, "last": 0, "channels": 2, **arguments})


def test_a_token_that_comes_too_early_changes_nothing() -> None:
    device, row = KOffsetGenerator(2, 2), (0x3C00, 0x3C00)
    device.step(row, 1, 0)
    before = device.step(row, 1, 0)
    for _ in range(3):
        with pytest.raises(Refused, match="until the window's tokens are out"):
            device.step(row, 1, 0)
        assert device.snapshot() == before
        before = device.go_on()
    with pytest.raises(Refused, match="must be finite"):
        device.step((0x3C00, 0x7E00), 1, 0)
    assert device.snapshot() == before and device.step(row, 1, 0).event == "apply"
    with pytest.raises(Refused, match="inputs of steps must be one sequence"):
        list(device.steps(np.zeros((2, 2, 2), int), 1, 0))


def test_frozen_offsets_are_used_and_nothing_tracked() -> None:
    """[harmonia §IV-A (5)] D-harmonia-26: the offsets of another run's prompt are subtracted from a later token."""
    rows = drawn((40, 64), 3)
    prompt = k_offset.run(**events(rows, 32, 2))
    device = KOffsetGenerator()
    device.freeze(prompt.offset[-1])
    states = [device.step(row, 1, 0) for row in rows[32:].tolist()]

    assert [list(state.k_out) for state in states] == prompt.k_out[prompt.out_valid][32:].tolist()
    last = states[-1]
    assert (last.comparisons, last.select_comparisons, last.gated_tokens, last.subtractions) == (0, 0, 8, 16)
    assert last.offset == tuple(prompt.offset[-1].tolist()) and not any(last.peak)
    assert np.array_equal(last.selected, prompt.selected[-1])


def test_k_offset_rejects_impossible_offsets() -> None:
    device = KOffsetGenerator(4)
    before = device.snapshot()
    for offset, message in (
        ([0x3C00] * 2 + [0] * 2, "offset must have at most 1 channels that are not 0, got 2"),
        ([0x7C00, 0, 0, 0], r"k_offset: k must be finite, got 0x7c00 at index \(0,\)"),
    ):
        with pytest.raises(Refused, match=message):
            device.freeze(offset)
    assert device.snapshot() == before
    device.step((0, 0, 0, 0), 1, 0)
    with pytest.raises(Refused, match="freeze must come before any event, got 1 events"):
        device.freeze([0] * 4)


def test_k_offset_repr_evaluates_back() -> None:
    text = "KOffsetGenerator(channels=8, window=4, offset_k=2, offset_scope='head', heads=2, offset_sign='unsigned')"

    assert repr(KOffsetGenerator(8, 4, 2, "head", 2, "unsigned")) == text


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), tokens=st.integers(1, 7))
def test_registers_after_every_event(run: Any, data: st.DataObject, tokens: int) -> None:
    """Signs of the peaks, the temporary SRAM, and how far writing, choosing and reading are: window 4, two channels."""
    some = np.resize(np.array(data.draw(st.lists(words, min_size=1, max_size=40)), np.uint16), (tokens, 8))
    result, inside = run(**events(some, 4, 2), channels=8, window=4, offset_k=2), min(tokens, 4)
    at = np.arange(inside + 2 + tokens)
    written, chosen = np.minimum(at + 1, inside), np.clip(at + 1 - inside, 0, 2)

    assert result.written.tolist() == written.tolist() and result.chosen.tolist() == chosen.tolist()
    assert result.read.tolist() == np.clip(at - 1 - inside, 0, inside).tolist()
    assert result.frozen.tolist() == (written == inside).tolist()
    for event, count in enumerate(written.tolist()):
        rows = np.zeros((4, 8), np.uint16)
        rows[:count] = some[:count]
        assert result.rows[event].tolist() == rows.reshape(-1).tolist()
        signs = [max(column.tolist(), key=lambda word: word & 0x7FFF) for column in some[:count].T]
        assert result.negative[event].tolist() == [bool(word & 0x7FFF) and word > 0x7FFF for word in signs]
    assert run(some, 1, 0, channels=8, window=tokens + 8).rows is None
