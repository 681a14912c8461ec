"""Pictures of the README and of CONTRIBUTING.md are what tools/picture.py draws, and are true."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from refemu import golden, models
from tools import picture
from tools.rules.imports import ALLOWED

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
README = (Path(__file__).parents[2] / "README.md").read_text()
PAGE = (Path(__file__).parents[2] / "docs" / "leankv-page.md").read_text()


def test_pictures_are_what_the_tool_writes(tmp_path: Path) -> None:
    picture.main(tmp_path / "new")
    written, there = (
        {path.name: path.read_text() for path in folder.iterdir()} for folder in (tmp_path / "new", picture.PLACE)
    )

    assert written == there
    shown = README + CONTRIBUTING + PAGE
    assert all(f"pictures/{name}" in shown for name in picture.pictures())
    assert "popped by max: 9 (element 6)" in picture.pictures()["orizuru.svg"]


def test_layers_are_those_of_the_import_rules() -> None:
    assert picture.LAYERS.keys() == ALLOWED.keys()


def passed(run: Callable[[], object]) -> set[str]:
    """Functions of refemu that are called while `run` runs."""
    names = set[str]()

    def seen(frame: FrameType, event: str, _: Any) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith("refemu."):
            names.add(f"{module.removeprefix('refemu.')}.{frame.f_code.co_qualname}")

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.long
def test_ways_pass_the_named_functions(tmp_path: Path) -> None:
    session = models.session(models.prepare("tiny", "olive-4"))
    assert picture.TENSOR.keys() <= passed(lambda: session.append([1]))
    assert picture.SET.keys() <= passed(lambda: golden.generate(tmp_path, units=["concat"], kinds=["paper"]))
