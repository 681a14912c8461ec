"""Inner words that a unit and a design share: merged where they are equal, and only there."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from refemu import units
from refemu.golden.proofs import prove, question
from refemu.prove import design, lift, sequential, terms
from refemu.prove.equivalence import Part
from refemu.prove.inner import comparison, sweeping
from refemu.prove.inner.shared import Shared
from refemu.prove.terms import Term

pytest.importorskip("bitwuzla")
pytestmark = pytest.mark.long
needs_yosys = pytest.mark.skipif(shutil.which("yosys") is None, reason="yosys is not installed")
RTL = Path(__file__).parents[3] / "examples" / "rtl"
A, B, C = (terms.variable(name, 12) for name in "abc")


def product(x: Term, y: Term, width: int) -> Term:
    """x * y, signed."""
    return terms.mul(terms.sext(x, width), terms.sext(y, width))


def rows(seed: int, count: int = 100) -> dict[str, np.ndarray]:
    """Values of the variables."""
    draw = random.Random(seed)
    return {name: np.array([draw.getrandbits(12) for _ in range(count)], np.uint64) for name in "abc"}


def test_equal_words_of_other_widths_are_shared() -> None:
    left = terms.add(product(A, B, 26), terms.sext(C, 26))
    right = terms.add(product(B, A, 30), terms.sext(C, 30))
    (new,), shared = sweeping.swept([left], [right], [], rows(1), 60)
    assert shared.points
    part = shared.ask("sum", terms.not_(terms.eq(terms.sext(left, 30), new)), 60)
    assert part.outcome == "proved"


def test_word_that_is_equal_on_rows_only_is_not_shared() -> None:
    left = product(A, B, 24)
    rare = terms.eq(terms.concat(A, terms.concat(B, C)), terms.const(0x123456789, 36))
    right = terms.ite(rare, terms.const(5, 24), product(B, A, 24))
    (new,), shared = sweeping.swept([left], [right], [], rows(2), 30)
    assert shared.ask("product", terms.not_(terms.eq(left, new)), 30).outcome == "refuted"
    assert terms.evaluate([new], {"a": [0x123], "b": [0x456], "c": [0x789]}, 1)[0] == 5


def test_assumption_that_makes_words_equal_is_used() -> None:
    left, right = terms.add(A, A), terms.add(A, B)
    given = rows(3) | {"b": rows(3)["a"]}
    (new,), _ = sweeping.swept([left], [right], [terms.eq(A, B)], given, 30)
    assert new is left


@pytest.mark.parametrize(("most", "outcome"), [(62, "proved"), (61, "refuted")])
def test_values_of_an_amount_of_shifts_are_cases(most: int, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    amount = terms.add(terms.zext(terms.variable("k", 5), 6), terms.zext(terms.variable("n", 5), 6))
    shifted = terms.shl(terms.sext(product(A, B, 24), 90), terms.zext(amount, 90))
    limit = terms.ite(terms.ult(terms.const(most, 6), amount), terms.const(most, 6), amount)
    left, right = (terms.ashr(shifted, terms.zext(each, 90)) for each in (amount, limit))
    known, asked = Shared([]), list[int]()
    ask = Shared.ask

    def late(self: Shared, what: str, condition: Term, seconds: float) -> Part:
        asked.append(1)
        return ask(self, what, condition, seconds) if len(asked) > 1 else Part(what, "undecided", 0.0, "")

    monkeypatch.setattr(Shared, "ask", late)
    part = known.settle("product", terms.not_(terms.eq(left, right)), 60)
    assert part.outcome == outcome


@needs_yosys
def test_design_is_compared_by_inner_words() -> None:
    unit = units.find("ovp_decoder")
    lifted = lift.lift(unit, unit.configs["int4"])
    proof = comparison.by_inner_words(lifted, design.read([RTL / "ovp_decoder.v"], "ovp_decoder"), 60)
    assert proof.outcome == "proved" and "inner words" in proof.parts[0].what


@needs_yosys
def test_wrong_design_is_refuted_by_inner_words(tmp_path: Path) -> None:
    unit, text = units.find("ovp_decoder"), (RTL / "ovp_decoder.v").read_text()
    wrong = tmp_path / "ovp_decoder.v"
    wrong.write_text(text.replace("bias + {2'b00, code[2:1]}", "bias + {3'b000, code[1]}"))
    lifted = lift.lift(unit, unit.configs["int4"])
    assert comparison.by_inner_words(lifted, design.read([wrong], "ovp_decoder"), 60).outcome == "refuted"


@needs_yosys
def test_step_of_a_design_is_compared_by_inner_words(tmp_path: Path) -> None:
    """`load` has two values, so there are two cases."""
    unit, sources = units.find("olive_mac"), [RTL / "olive_mac_core.v", RTL / "olive_mac_wrap.v"]
    lifted, timing = lift.lift(unit, unit.configs["wrap"]), sequential.Timing()
    proof = comparison.step_by_inner_words(lifted, design.read(sources, "olive_mac"), timing, 60)
    assert proof.outcome == "proved"
    assert {part.what.rpartition(" if ")[2] for part in proof.parts} == {"load = 0", "load = 1"}
    wrong = tmp_path / "core.v"
    wrong.write_text(sources[0].read_text().replace("load ? acc_in", "load ? ~acc_in"))
    read = design.read([wrong, sources[1]], "olive_mac")
    assert comparison.step_by_inner_words(lifted, read, timing, 60).outcome == "refuted"


@needs_yosys
def test_undecided_first_question_is_followed_by_inner_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first question is undecided, as it is for large units."""
    undecided = prove.equivalence.Proof("undecided", [], "miter")
    monkeypatch.setattr(prove.equivalence, "combinational", lambda *_: undecided)
    unit = units.find("ovp_decoder")
    report = prove.prove(question.Question(unit, "int4", [str(RTL / "ovp_decoder.v")]))
    assert report.proof.outcome == "proved" and report.proof.parts[0].what.endswith("that both compute")
