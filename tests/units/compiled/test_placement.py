"""Lists of events are arrays that every event uses; vectors are written into their rows and registers."""

import ast

from refemu.units.compiled.placement import Placed

MADE = "v = f_empty(4)\nfor i in range(4):\n    v[i] = i + x"
WRITTEN = "_y = v\nwrite_y(_y)\nkeep_y()"


def placed(text: str, held: tuple[str, ...] = (), *names: str) -> str:
    """The body of an event."""
    (tree,) = ast.parse(f"def event():\n    {text.replace(chr(10), chr(10) + '    ')}").body
    assert isinstance(tree, ast.FunctionDef)
    return ast.unparse(ast.fix_missing_locations(ast.Module(Placed(tree, held, names).body, [])))


def test_a_register_is_its_row() -> None:
    lines = placed(f"{MADE}\n{WRITTEN}", ("y",)).splitlines()

    assert lines[-2:] == ["for _lane in range(s_y.size):", "    s_y[_lane] = y_y[_d, _e, _lane]"]


def test_list_of_fixed_length_reuses_its_array() -> None:
    text = placed(f"{MADE}\n{WRITTEN}", (), "w_event_v")

    assert text.startswith("v = w_event_v\n") and "y_y[_d, _e, _lane] = _y[_lane]" in text


def test_list_in_loop_is_new_every_time() -> None:
    text = placed("for j in range(2):\n    v = f_empty(4)\n    v[0] = j", (), "w_event_v")

    assert "v = f_empty(4)" in text


def test_list_without_fixed_length_is_new_every_time() -> None:
    assert placed(f"{MADE}\na = v[0]").startswith("v = f_empty(4)")


def test_list_of_real_numbers_has_array_of_them() -> None:
    assert placed("v = f_empty_reals(4)\na = v[0]", (), "x_event_v").startswith("v = x_event_v\n")
    assert placed("v = f_empty_reals(4)\na = v[0]", (), "w_event_v").startswith("v = f_empty_reals(4)")
