"""Statements: names of the text, names for several readers, and order."""

from refemu.prove import terms, verilog
from refemu.prove.naming import Names
from refemu.prove.statements import free_name, statements, variables, view
from refemu.prove.terms import Term

A, B = terms.variable("a", 8), terms.variable("b", 8)


def _lines(names: Names, *roots: Term) -> tuple[list[str], list[str]]:
    lines, texts = statements(roots, names, {"a": "a", "b": "b"}, {"a", "b"}, verilog.LANGUAGE)
    return [verilog.declared(each) for each in lines], texts


def test_term_with_a_name_is_a_signal() -> None:
    names = Names()
    total = terms.add(A, B)
    names.known[total.number] = total, "f_total"

    assert _lines(names, terms.mul(total, A)) == (["wire [7:0] f_total = a + b;"], ["(a * f_total)"])


def test_term_with_one_reader_is_inside_its_expression() -> None:
    assert _lines(Names(), terms.xor(terms.add(A, B), A)) == ([], ["(a ^ (a + b))"])


def test_term_with_two_readers_is_a_signal() -> None:
    lines, texts = _lines(Names(), terms.add(A, B), terms.sub(terms.add(A, B), A))

    assert (lines, texts) == (["wire [7:0] of_add = a + b;"], ["of_add", "(of_add - a)"])


def test_inverted_and_of_inverted_operands_is_or() -> None:
    assert view(terms.or_(A, B)) == ("or", (A, B))
    assert view(terms.not_(terms.and_(A, B)))[0] == "not"


def test_second_signal_of_a_name_gets_a_number() -> None:
    taken = {"x"}

    assert [free_name("x", taken), free_name("x", taken), free_name("y", taken)] == ["x_2", "x_3", "y"]
    assert taken == {"x", "x_2", "x_3", "y"}


def test_variables_are_those_below_terms() -> None:
    assert variables([terms.add(A, terms.const(1, 8))]) == ["a"]
