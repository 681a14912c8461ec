"""The README's picture is what refemu draws."""

from pathlib import Path

from tools import picture

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_pictures_are_what_the_tool_writes() -> None:
    """`python tools/picture.py` writes them."""
    assert {path.name: path.read_text() for path in picture.PLACE.iterdir()} == picture.pictures()
    assert all(f"docs/pictures/{name}" in README for name in picture.pictures())
    assert "popped by max: 9 (element 6)" in picture.pictures()["orizuru.svg"]
