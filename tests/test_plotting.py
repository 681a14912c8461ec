"""Files of plots."""

import sys
from pathlib import Path

import pytest

from refemu import plotting
from refemu.arith.checks import Refused


@pytest.mark.parametrize("name", ["plot.pdf", "plot", "plot.SVG"])
def test_other_files_are_rejected(name: str) -> None:
    with pytest.raises(Refused, match=r"the name must end in .svg or .png"):
        plotting.require(name)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plotting.require(Path("x.svg"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Refused, match=r"pip install matplotlib"):
        plotting.require("x.svg")
