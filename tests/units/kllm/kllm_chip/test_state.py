"""Registers of the chip's Functional Unit: ports of a configuration, events after the last edge, faulty devices."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.grade import answers
from refemu.golden.grade.answers import Answers
from refemu.units.declaration import Changes, DeclaredState
from refemu.units.kllm.functional import Functional, Op
from refemu.units.kllm.kllm_chip import UNIT, KllmChip, cases
from refemu.units.unit import Config, Kind
from tests.golden import detecting
from tests.oracles.kllm import chip as oracle

SOFTMAX = UNIT.configs["softmax"]


def stepped(device: KllmChip, words: list[int]) -> list[DeclaredState]:
    """All events of a token whose outputs are `words`."""
    inputs = cases._outputs(SOFTMAX, np.array([words]))
    states = [device.step(**{name: tuple(array[0].tolist()) for name, array in inputs.items()})]
    while device.busy:
        states.append(device.step())
    return states


def logits(*words: int) -> list[int]:
    return [words[place % len(words)] for place in range(SOFTMAX["n"])]


def test_only_a_function_has_ports() -> None:
    """The other configurations have the ports that they had."""
    added = {
        name: [port.name for port in (*UNIT.ports(config).outputs, *UNIT.ports(config).state)][6:]
        for name, config in UNIT.configs.items()
    }
    root = UNIT.ports(Config(**{**SOFTMAX, "function": "sqrt"}))

    assert added == {"column": [], "counter": [], "sums": [], "softmax": ["z", "top", "terms", "total"]}
    assert [port.name for port in root.outputs[6:]] == ["z"] and root.state == ()
    assert KllmChip().function == "none" and KllmChip().functional is None and KllmChip().state.functional is None
    assert {port.name: port.bits for port in UNIT.ports(Config(**{**SOFTMAX, "softmax": "softmax32"})).state} == {
        "top": 16,
        "terms": 32,
        "total": 32,
    }


def test_functional_unit_begins_after_last_edge() -> None:
    """D-kllm-62: three passes of eight outputs a cycle, when all outputs of the token are in the Out Buffer."""
    device = KllmChip(**SOFTMAX)
    before, *states = stepped(device, logits(0x3C00, 0x4000, 0xFC00))[-10:]

    assert before.event == "edge" and [state.event for state in states] == ["function"] * 9
    assert [state.functional.event for state in states if state.functional] == [
        each for each in ("max", "exp", "divide") for _ in range(3)
    ]
    assert all(state.y == before.y for state in states)
    assert [np.count_nonzero(state.terms) for state in states] == [0, 0, 0, 6, 11, 14, 14, 14, 14]
    assert [np.count_nonzero(state.z) for state in states] == [0] * 6 + [6, 11, 14]
    assert {state.top for state in states} == {0x4000} and states[-1].cycles_taken == before.cycles_taken + 9
    answer = oracle.applied("softmax", before.y)
    assert (list(states[-1].z), states[-1].total) == (answer.z, answer.total)
    assert (states[-1].function_cycles, states[-1].exps, states[-1].divides) == (9, 20, 20)


@pytest.mark.parametrize("function", ["exp", "sqrt", "recip", "softmax"])
def test_token_resumes_in_middle_of_its_function(function: Op) -> None:
    """In another chip, which is in the middle of one too; then the next token starts from cleared registers."""
    config = {**SOFTMAX, "function": function}
    device, other = KllmChip(**config), KllmChip(**config)
    states = stepped(device, logits(0x3C00, 0x4000, 0x4100))
    stepped(other, logits(0x4200))
    functions = [state for state in states if state.event == "function"]
    assert len(functions) == (9 if function == "softmax" else 3)
    for before, after in pairwise(states[-1 - len(functions) :]):
        other.restore(before)
        assert other.busy and other.step() == after
    assert not other.busy
    other.restore(functions[0])
    other.restore(replace(functions[-1], functional=functions[-1].functional))
    again = stepped(device, logits(0x3800)), stepped(other, logits(0x3800))
    assert again[0] == again[1]
    fresh = stepped(KllmChip(**config), logits(0x3800))[-1]
    assert (fresh.z, fresh.top, fresh.terms, fresh.total) == tuple(
        getattr(again[0][-1], name) for name in ("z", "top", "terms", "total")
    )


@pytest.mark.parametrize(
    ("function", "softmax"),
    [("exp", "fp16"), ("sqrt", "fp16"), ("recip", "fp16"), ("softmax", "fp16"), ("softmax", "softmax32")],
)
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "compiled"])
def test_every_function_is_the_oracles(function: str, softmax: str, jit: bool) -> None:
    config = Config(**{**SOFTMAX, "function": function, "softmax": softmax})
    rows = [logits(0x3C00, 0x3800, 0x4100, 0x0001), logits(0x4200, 0x3555, 0x2E66)]
    result = UNIT.evaluate(config, cases._outputs(config, np.array(rows)), jit=jit)
    answers = [oracle.applied(function, row, softmax) for row in rows]

    assert result.z.tolist() == [each.z for each in answers] and result.y.tolist() == rows
    if function == "softmax":
        for port in ("top", "terms", "total"):
            assert getattr(result, port).tolist() == [getattr(each, port) for each in answers]
    for counter in ("function_cycles", "exps", "roots", "divides"):
        assert getattr(result, counter) == sum(each.counters.get(counter, 0) for each in answers)
    parts = ("search_cycles", "cluster_cycles", "edges", "function_cycles")
    assert result.cycles == sum(getattr(result, part) for part in parts)
    assert set(parts) < set(UNIT.counters)


@pytest.mark.parametrize("function", ["exp", "softmax"])
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "compiled"])
def test_one_column_is_a_row_of_one(function: str, jit: bool) -> None:
    config = Config(**{**SOFTMAX, "n": 1, "function": function})
    inputs = cases._outputs(config, np.array([[0x4200], [0xFBFF]]))
    result = UNIT.evaluate(config, inputs, jit=jit)

    assert result.z.tolist() == [oracle.applied(function, [word]).z for word in (0x4200, 0xFBFF)]
    assert result.function_cycles == (6 if function == "softmax" else 2)


@pytest.mark.parametrize("jit", [False, True], ids=["unit", "compiled"])
def test_outputs_that_the_functional_unit_does_not_take(jit: bool) -> None:
    """D-kllm-63: -Inf is a masked logit; +Inf, NaN and a row of -Inf are rejected with their index."""
    for word, shown, place in ((0x7BFF, "inf", 3), (0x7E00, "nan", 0)):
        beyond = cases._outputs(SOFTMAX, np.array([[0, 0, 0, *[0x4000] * 17]]))
        beyond["products"][:, 1::4] = word
        message = rf"functional: x must not be NaN or \+Inf, got {shown} at index \({place},\)"
        with pytest.raises(Refused, match=message):
            UNIT.evaluate(SOFTMAX, beyond, jit=jit)
    with pytest.raises(Refused, match="functional: a row of softmax must have a finite value, got -Inf only"):
        UNIT.evaluate(SOFTMAX, cases._outputs(SOFTMAX, np.array([logits(0xFC00)])), jit=jit)


def test_rejected_function_changes_nothing() -> None:
    """D-kllm-63: the chip stays after the last edge until another State is restored."""
    device = KllmChip(**SOFTMAX)
    clean = device.snapshot()
    with pytest.raises(Refused, match="functional: a row of softmax must have a finite value, got -Inf only"):
        stepped(device, logits(0xFC00))
    stands = device.snapshot()
    assert stands.event == "edge" and device.busy
    with pytest.raises(Refused, match="functional: a row of softmax must have a finite value, got -Inf only"):
        device.step()
    assert device.snapshot() == stands
    device.restore(clean)
    assert stepped(device, logits(0x3C00)) == stepped(KllmChip(**SOFTMAX), logits(0x3C00))


@pytest.mark.parametrize(("name", "value"), [("function", "log"), ("softmax", "fp32")])
def test_unknown_functions_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(Refused, match=f"kllm_chip: {name} must be one of"):
        KllmChip(**{name: value})


# Faulty devices.


class Unapplied(KllmChip):
    """z shows the outputs."""

    def _functions(self, done: DeclaredState) -> dict[str, Any]:
        return super()._functions(done) | {"z": done.x}


class Unpaid(KllmChip):
    """Cycles of the token end with the last edge."""

    def function_(self) -> Changes:
        return {**super().function_(), "cycles_taken": self.state.cycles_taken}


class Early(KllmChip):
    """The Functional Unit takes the outputs of the token before."""

    def function_(self) -> Changes:
        before = self.state
        if before.event == "edge":
            words, self._words = getattr(self, "_words", None), before.y
            if words is not None:
                self.state = replace(before, y=words)
        return {**super().function_(), "y": before.y}


class Quiet(Functional):
    """Whose mistakes may divide by 0."""

    def quotients(self, terms: np.ndarray, total: np.float32) -> np.ndarray:
        with np.errstate(all="ignore"):
            return super().quotients(terms, total)


class Undistant(Quiet):
    """The maximum is not subtracted."""

    def exponentials(self, x: np.ndarray, top: np.ndarray) -> np.ndarray:
        return super().exponentials(x, np.zeros_like(top))


class Uncleared(Functional):
    """The sum continues from row to row."""

    def _open(self, *inputs: Any) -> DeclaredState:
        kept = self.state.total
        self.state = replace(super()._open(*inputs), total=kept)
        return self.state


class UnclearedTop(Quiet):
    """The maximum continues from row to row."""

    def _open(self, *inputs: Any) -> DeclaredState:
        kept = self.state.top
        first = super()._open(*inputs)
        self.state = replace(first, top=kept if kept < 0x8000 else first.top)
        return self.state


class SevenOfEight(Functional):
    """An exponential unit is not there."""

    def exp(self, *inputs: Any) -> Changes:
        after = super().exp(*inputs)
        return {**after, "terms": tuple(0 if place % 8 == 7 else word for place, word in enumerate(after["terms"]))}


def with_functional(wrong: type[Functional]) -> type[KllmChip]:
    """A chip whose Functional Unit is another one."""

    class Changed(KllmChip):
        def __init__(self, **parameters: Any) -> None:
            super().__init__(**parameters)
            self.functional = wrong("softmax", self.n, self.softmax)

    return Changed


@cache
def rows() -> Answers:
    """Cases of the set whose outputs were chosen."""
    kinds: tuple[Kind, ...] = ("paper", "edge")
    blocks = [each for kind in kinds for each in UNIT.cases(SOFTMAX, kind, 0)]
    return answers.of_cases(UNIT, SOFTMAX, [each for each in blocks if each.why.endswith("(outputs)")])


def test_the_right_functional_unit_passes() -> None:
    assert detecting.right(rows()) and detecting.right(detecting.drawn("kllm_chip-softmax"))


@pytest.mark.parametrize(
    "wrong", [Unapplied, Unpaid, Early, *map(with_functional, (Undistant, Uncleared, UnclearedTop, SevenOfEight))]
)
def test_faulty_function_is_detected(wrong: type[KllmChip]) -> None:
    assert detecting.by(rows(), wrong)


@pytest.mark.parametrize("decision", ["D-kllm-20", "D-kllm-62"])
def test_rows_detect_every_variant(decision: str) -> None:
    others = [each for each in UNIT.variants if each.decision == decision]
    assert others and all(detecting.by(rows(), each) for each in others)
