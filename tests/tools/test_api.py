"""The pages of docs/api list the public names."""

from refemu import units
from tools import api


def test_pages_are_what_the_tool_writes() -> None:
    """`python -m tools.api` writes them."""
    assert {path.name: path.read_text() for path in api.PLACE.glob("*.md")} == api.pages()


def test_every_name_of_all_is_a_row() -> None:
    page = api.pages()["formats.md"]

    assert "| `Ovp` |" in page and "| `train` |" in page and "| `zeros` |" not in page


def test_the_comment_of_a_constant_is_its_line() -> None:
    comments = api.comments(units.module("mmaovp"))

    assert comments["CHUNKS"] == "Dot product operations that one element of D needs"
    assert comments["ROWS"] == comments["COLUMNS"]


def test_a_name_is_looked_up_where_it_is_defined() -> None:
    assert api.home(units.module("orizuru"), "levels").__name__ == "refemu.units.kllm.orizuru.trees"
    assert api.home(units.module("concat"), "run").__name__ == "refemu.units.kllm.concat"
