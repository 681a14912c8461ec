"""Formats of plug-ins: found, listed and shown by name; rejected if their codes do not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from tests.plugin_distribution import installed, write

GRAY = """
import numpy as np


class Gray:
    width = 2

    def codes(self):
        return np.arange(4, dtype=np.uint8)

    def decode(self, codes):
        return np.array([0, 1, 3, 2])[np.asarray(codes)]

    def encode(self, values):
        return np.array([0, 1, 3, 2], np.uint8)[np.asarray(values)]

    def describe(self, code):
        return f"{code:02b} gray = {self.decode(code)}"


GRAY2 = Gray()
"""


def test_format_of_distribution_is_found_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "gray", {"formats GRAY2": "gray_codes:GRAY2"}, {"gray_codes.py": GRAY})
    with installed(tmp_path):
        assert formats.find("gray2") is formats.find("gray/GRAY2")
        assert "GRAY2" in formats.plugged()
        assert main(["list", "formats"]) == 0 and "GRAY2" in capsys.readouterr().out
        assert main(["show", "gray2", "2"]) == 0 and capsys.readouterr().out == "10 gray = 3\n"
    with pytest.raises(Refused, match="no distribution gray with a format is installed"):
        formats.find("gray/GRAY2")


class Two:
    """A format of two codes."""

    width = 1

    def codes(self) -> np.ndarray:
        return np.arange(2, dtype=np.uint8)

    def encode(self, values: Any, /) -> np.ndarray:
        return np.asarray(values, np.uint8)

    def decode(self, codes: Any, /) -> np.ndarray:
        return np.asarray(codes)

    def describe(self, code: int, /) -> str:
        return str(code)


def test_a_format_is_registered_by_call() -> None:
    two = Two()
    try:
        assert formats.register("TWO", two) is two is formats.find("two")
    finally:
        formats.unregister("TWO")
    with pytest.raises(Refused, match="unknown format 'two'"):
        formats.find("two")


def test_invalid_format_is_rejected() -> None:
    two = Two()
    with pytest.raises(Refused, match="format INT4: refemu has a format of this name"):
        formats.register("INT4", two)
    with pytest.raises(Refused, match="a name is an upper case word, got 'two'"):
        formats.register("two", two)
    with pytest.raises(RefusedType, match="it needs width, codes, encode, decode and describe, got int"):
        formats.register("TWO", 2)  # type: ignore[arg-type]
    two.width = 0
    with pytest.raises(Refused, match=r"codes must be unsigned and below 2\*\*0"):
        formats.register("TWO", two)
