"""Names in Verilog expressions of a port map."""

import pytest

from refemu.golden.rtl import expressions


@pytest.mark.parametrize(
    ("expression", "names", "scoped"),
    [
        ("{a, b[3:0]}", ["a", "b"], "{core.a, core.b[3:0]}"),
        ("status.OF", ["status"], "core.status.OF"),
        ("pkg::RNE", [], "pkg::RNE"),
        ("type_t'(a)", ["a"], "type_t'(core.a)"),
        ("$signed(a) + 4'hf", ["a"], "$signed(core.a) + 4'hf"),
        ("'0", [], "'0"),
        ("'{a, b}", ["a", "b"], "'{core.a, core.b}"),
        ("lane[0].q & ~`MASK", ["lane"], "core.lane[0].q & ~`MASK"),
    ],
)
def test_names_of_expression_are_found_and_scoped(expression: str, names: list[str], scoped: str) -> None:
    assert list(expressions.names(expression)) == names
    assert expressions.scoped(expression, "core") == scoped
