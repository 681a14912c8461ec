"""The SMT-LIB script has the values of the unit."""

import pytest

from refemu.golden.formal import smt
from tests.golden.formal.formal_references import needs_solver, reference_of

pytestmark = [pytest.mark.long, needs_solver]


def test_script_has_the_outputs_of_a_row() -> None:
    z3 = pytest.importorskip("z3")
    script = smt.text(reference_of("ovp_decoder:int4"))

    def answer(illegal: int) -> str:
        solver = z3.Solver()
        row = f"(assert (= |pair| #x88))(assert (= |bias| #x2))(assert (= out.illegal #b{illegal}))"
        solver.from_string(script + row)
        return str(solver.check())

    assert (answer(0), answer(1)) == ("unsat", "sat")
    assert "text.decode_left " in script
