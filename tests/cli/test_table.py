"""Layout of tables: widths, wrapping, alignment."""

from refemu.cli import output


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(output.table_lines(["name", "n", "what"], [["a", "5", "x y"], ["long name", "10", ""]], ["n"], 80)) == [
        "name        n  what",
        "───────────────────",
        "a           5  x y",
        "long name  10",
    ]


def test_wide_cells_are_wrapped() -> None:
    rows = [["a", "some words and incomprehensibilities"]]
    assert list(output.table_lines(["name", "what"], rows, [], 16)) == [
        "name  what",
        "─" * 16,
        "a     some words",
        "      and incomp",
        "      rehensibil",
        "      ities",
    ]


def test_widest_text_column_is_narrowed_first() -> None:
    assert output.fitted([30, 20, 40, 5], [False, True, True, False], 90) == [30, 20, 29, 5]
    assert output.fitted([30, 20, 40, 5], [False, True, True, False], 70) == [30, 14, 15, 5]
    assert output.fitted([30, 20, 40, 5], [False, True, True, False], 10) == [30, 8, 8, 5]


def test_table_without_rows_has_a_header() -> None:
    assert list(output.table_lines(["name"], [], [], 80)) == ["name", "────"]


def test_tied_space_is_not_wrapped() -> None:
    rows = [["a", f"array 12.5{output.TIED}%"]]
    assert list(output.table_lines(["name", "use"], rows, [], 16))[2:] == ["a     array", "      12.5 %"]
    assert list(output.table_lines(["name", "use"], rows, [], 80))[2:] == ["a     array 12.5 %"]
