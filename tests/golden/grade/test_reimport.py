"""A unit with other code in one module exists in a block, and the right one afterwards."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.grade import reimport


@pytest.mark.parametrize("name", ["outlier_decoder", "orizuru"], ids=["a module", "a module of a package"])
def test_changed_module_runs_and_is_restored(name: str) -> None:
    right = units.find(name)
    home = sys.modules[right.unit_class.__module__]
    path = Path(str(home.__file__))
    assert path in reimport.sources(right)
    with reimport.mutated(right, path, compile(path.read_text() + "\nSEEN = 1\n", str(path), "exec")) as wrong:
        assert wrong is not right and wrong.name == name
        assert hasattr(sys.modules[home.__name__], "SEEN")

    assert units.find(name) is right and sys.modules[home.__name__] is home and not hasattr(home, "SEEN")


def test_module_is_restored_after_an_error() -> None:
    right = units.find("outlier_decoder")
    home = sys.modules[right.unit_class.__module__]
    path = Path(str(home.__file__))
    with pytest.raises(ZeroDivisionError), reimport.mutated(right, path, compile("1 / 0", str(path), "exec")):
        pass

    assert sys.modules[home.__name__] is home


def test_unit_without_a_file_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = units.find("outlier_decoder")
    monkeypatch.setattr(units, "module", lambda unit: ModuleType("notebook"))
    with pytest.raises(Refused, match="class model changes sources, but module notebook has no file"):
        reimport.sources(right)
