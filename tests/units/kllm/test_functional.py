"""The Functional Unit: every fp16 word, softmax against the oracle, cycles, errors."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.tables import table16
from refemu.arith.threads import using_threads
from refemu.units.kllm import functional
from refemu.units.kllm.functional import Functional
from refemu.units.kllm.functional import compiled as functional_compiled
from tests.oracles.kllm import functions

IMPLEMENTATIONS = [pytest.param(functional.apply, id="unit"), pytest.param(functional_compiled.apply, id="compiled")]
PRESETS = {"fp16": "paper", "softmax32": "exact"}  # of the oracle


def values(words: Any) -> np.ndarray:
    return np.array(words, np.uint16).view(np.float16)


def words(x: np.ndarray) -> list[int]:
    return x.view(np.uint16).tolist()


def taken() -> np.ndarray:
    """Every word but NaN and +Inf."""
    every = np.arange(1 << 16).astype(np.uint16)
    return every[((every & 0x7FFF) < 0x7C00) | (every == 0xFC00)]


@pytest.mark.parametrize("op", ["exp", "sqrt", "recip"])
def test_every_word_has_its_table_entry(op: str) -> None:
    """[kllm §IV-A] all fp16 inputs, correctly rounded (the tables themselves are pinned in `arith`)."""
    every = taken()
    result = functional_compiled.apply(every.view(np.float16), op=op)
    counts = {"exp": result.exps, "sqrt": result.roots, "recip": result.divides}

    assert result.y.view(np.uint16).tolist() == table16(op)[every].tolist()
    assert counts == {name: every.size * (name == op) for name in counts}


@pytest.mark.parametrize("op", ["exp", "sqrt", "recip"])
def test_entries_are_the_oracles(op: str) -> None:
    chosen = [0x3C00, 0x4000, 0x0001, 0x0400, 0x4248, 0x7BFF] + [0xC000, 0xFC00] * (op == "exp")

    assert words(functional.apply(values(chosen), op=op).y) == [functions.function16(op, word) for word in chosen]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("softmax", list(PRESETS))
def test_softmax_of_four_logits(run: Any, softmax: str) -> None:
    """D-kllm-20: a float32 sum of the exponentials, one float32 division, one rounding."""
    result = run(values([0x4200, 0x4000, 0x3C00, 0xFC00]), op="softmax", softmax=softmax)

    assert words(result.y) == functions.softmax([0x4200, 0x4000, 0x3C00, 0xFC00], PRESETS[softmax])
    assert result.y.dtype == np.float16 and result.y[3] == 0
    assert (result.exps, result.divides, result.cycles) == (4, 4, 3)


LOGIT = st.one_of(st.integers(0, 0x4C00), st.integers(0x8000, 0xCC00), st.sampled_from([0, 0x8000, 0x7BFF, 0xFBFF]))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("softmax", list(PRESETS))
@settings(deadline=None, max_examples=40)
@given(row=st.lists(LOGIT, min_size=1, max_size=30), masked=st.integers(0, 5))
@example(row=[0x7BFF, 0xFBFF], masked=0)  # a distance that overflows fp16
@example(row=[0x8000, 0], masked=1)
@example(row=[0x7BFE, 0x7BFF, 0x7BFD], masked=0)  # the maximum is exact: a difference of 32 is large
def test_softmax_is_the_oracles(run: Any, softmax: str, row: list[int], masked: int) -> None:
    logits = row + [0xFC00] * masked

    assert words(run(values(logits), op="softmax", softmax=softmax).y) == functions.softmax(logits, PRESETS[softmax])


@settings(deadline=None, max_examples=60)
@given(row=st.lists(LOGIT, min_size=2, max_size=30))
def test_scores_are_in_the_order_of_the_logits(row: list[int]) -> None:
    """[kllm §IV-A] rounding never swaps two scores."""
    logits = values(row)
    scores = functional_compiled.apply(logits, op="softmax").y

    ranked = [score for _, score in sorted(zip(logits.tolist(), scores.tolist(), strict=True))]
    assert ranked == sorted(scores.tolist())


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_masked_keys_change_nothing(run: Any) -> None:
    """A row padded with -Inf has the scores of the row: causal rows may be of one length."""
    short, padded = values([0x3C00, 0x4000]), values([0x3C00, 0x4000, 0xFC00, 0xFC00])

    assert words(run(padded, op="softmax").y)[:2] == words(run(short, op="softmax").y)


@pytest.mark.parametrize(("t", "groups"), [(1, 1), (8, 1), (9, 2), (64, 8), (100, 13)])
def test_cycles_of_softmax(t: int, groups: int) -> None:
    """[kllm §IV-A] three passes of 8 values a cycle: maximum, exponentials, divisions."""
    x = np.ones((3, t), np.float16)

    assert (
        functional.apply(x, op="softmax").cycles == functional_compiled.apply(x, op="softmax").cycles == 3 * 3 * groups
    )
    assert functional.apply(x, op="softmax").equals(functional_compiled.apply(x, op="softmax"))


def test_passes_of_a_row() -> None:
    device = Functional("softmax", 9)
    states = list(device.steps(np.arange(0x3C00, 0x3C09)))

    assert [state.event for state in states] == ["max", "max", "exp", "exp", "divide", "divide"]
    assert [np.count_nonzero(state.terms) for state in states] == [0, 0, 8, 9, 9, 9]
    assert states[1].top == 0x3C08 and states[3].terms[8] == 0x3C00
    assert states[2].total == int(
        np.sum(np.array(states[2].terms[:8], np.uint16).view(np.float16), dtype=np.float32).view(np.uint32)
    )
    with pytest.raises(Refused, match="functional: step needs the inputs of an operation, got none"):
        device.step()


@pytest.mark.parametrize("op", ["exp", "sqrt", "recip", "softmax"])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (2, 1), (0, 4)])
def test_shapes(op: str, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, np.float16)
    unit, compiled_run = functional.apply(x, op=op), functional_compiled.apply(x, op=op)

    assert unit.y.shape == shape and unit.equals(compiled_run)


def test_a_scalar_is_one_value() -> None:
    assert functional.apply(np.float16(4), op="sqrt").y == functional_compiled.apply(np.float16(4), op="sqrt").y == 2


BAD_CALLS = [
    pytest.param([0x3C00, 0x7E00], {}, Refused, r"x must not be NaN or \+Inf, got nan at index \(1,\)", id="nan"),
    pytest.param([0x7C00], {}, Refused, r"x must not be NaN or \+Inf, got inf at index \(0,\)", id="inf"),
    pytest.param([0x3C00, 0x7C00], {"op": "softmax"}, Refused, "got inf at index", id="inf logit"),
    pytest.param(
        [[0], [0xFC00]],
        {"op": "softmax"},
        Refused,
        r"must have a finite value, got -Inf only at index \(1,\)",
        id="masked",
    ),
    pytest.param([], {"op": "softmax"}, Refused, "rows of at least one value", id="empty row"),
    pytest.param([0], {"op": "log"}, Refused, "op must be one of 'exp'", id="op"),
    pytest.param([0], {"op": "softmax", "softmax": "fp32"}, Refused, "softmax must be one of", id="softmax"),
    pytest.param([0], {"softmax": "softmax32"}, Refused, "softmax='softmax32' needs op='softmax', got", id="exp"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("x", "options", "error", "message"), BAD_CALLS)
def test_functional_rejects_invalid_inputs(
    run: Any, x: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(values(x), **options)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_functional_rejects_other_dtypes_and_scalars_as_rows(run: Any) -> None:
    with pytest.raises(RefusedType, match="x must be float16, got float32"):
        run(np.zeros(3, np.float32))
    with pytest.raises(RefusedType, match=r"x must be float16 \(..., t\), got float16 of shape \(\)"):
        run(np.float16(1), op="softmax")


def test_functional_repr_evaluates_back() -> None:
    assert repr(eval(repr(Functional("softmax", 20)))) == "Functional(op='softmax', t=20, softmax='fp16')"


@pytest.mark.parametrize("softmax", ["fp16", "softmax32"])
def test_threads_change_no_score(softmax: str) -> None:
    x = np.random.default_rng(2).normal(size=(515, 260)).astype(np.float16)
    answers = []
    for threads in (1, 2, 3):
        with using_threads(threads):
            answers.append(functional_compiled.apply(x, op="softmax", softmax=softmax))

    assert all(one.equals(answers[0]) for one in answers)


@pytest.mark.parametrize(("shape", "least"), [((3, 260), 127), ((70, 2), 1 << 14), ((4, 2, 1), 1 << 15)])
def test_a_thread_has_32768_logits_or_more(shape: tuple[int, ...], least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rows of them; every row is somebody's."""
    shares = []
    share_out = functional_compiled.share_out

    def shared(run: Any, units: int, least: int) -> None:
        shares.append((units, least))
        share_out(run, units, least=least)

    monkeypatch.setattr(functional_compiled, "share_out", shared)
    result = functional_compiled.apply(np.zeros(shape, np.float16), op="softmax")

    assert shares == [(math.prod(shape[:-1]), least)]
    assert (result.y == np.float16(1 / shape[-1])).all()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_no_rows_have_no_scores(run: Any) -> None:
    assert run(np.zeros((0, 3), np.float16), op="softmax").y.shape == (0, 3)
    for shape in ((3, 0), (0, 0), (0,)):
        with pytest.raises(Refused, match="softmax needs rows of at least one value, got shape "):
            run(np.zeros(shape, np.float16), op="softmax")
