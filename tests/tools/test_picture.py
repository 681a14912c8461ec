"""The README's picture is what refemu draws."""

from pathlib import Path

from tools import picture

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_pictures_are_what_the_tool_writes(tmp_path: Path) -> None:
    picture.main(tmp_path / "new")
    written, there = (
        {path.name: path.read_text() for path in folder.iterdir()} for folder in (tmp_path / "new", picture.PLACE)
    )

    assert written == there
    assert all(f"docs/pictures/{name}" in README for name in picture.pictures())
    assert "popped by max: 9 (element 6)" in picture.pictures()["orizuru.svg"]
