"""The digest of a scheme's own code: its modules, the files that they read and that parameters name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refemu.models import schemes
from refemu.models.schemes import own_code, scheme_file

SCHEME = """
import sys
from dataclasses import dataclass
from refemu import models
sys.path.insert(0, {folder!r})
{start}
@dataclass(frozen=True)
class S(models.LinearScheme):
    file: str = ""
    def weight(self, name, rows):
        {body}
        return rows
"""
OWN = ("own_helper", "own_far", "own_package", "own_package.part")


@pytest.fixture(autouse=True)
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    forget()


def forget() -> None:
    """What the start of another process does."""
    for name in (*OWN, *scheme_file._PATHS):
        sys.modules.pop(name, None)
    scheme_file._PATHS.clear()
    own_code._OPENED.clear()


def digest(start: str = "", body: str = "pass", used: bool = False, spec: str = "s.py:S") -> str | None:
    """The digest in a new process. used: after a hook ran."""
    forget()
    Path("s.py").write_text(SCHEME.format(folder=str(Path.cwd()), start=start, body=body))
    config = schemes.parse(spec)
    if used:
        config.weight("blk.0.q", None)  # type: ignore[attr-defined]
    return own_code.sha256(config)


@pytest.mark.parametrize(
    ("start", "body"),
    [
        pytest.param("import own_helper", "pass", id="import"),
        pytest.param("from own_helper import BITS", "pass", id="name"),
        pytest.param("import own_far", "pass", id="through another module"),
        pytest.param("from own_package import part", "pass", id="submodule"),
        pytest.param("import own_package.part as p", "pass", id="dotted"),
        pytest.param("from own_package.part import BITS", "pass", id="relative import"),
        pytest.param("", "import own_helper", id="in a hook"),
        pytest.param("", "from own_far import BITS", id="in a hook, through another module"),
    ],
)
def test_changed_helper_changes_the_digest(start: str, body: str) -> None:
    Path("own_package").mkdir()
    Path("own_package/__init__.py").touch()
    found = []
    for bits in (8, 4, 8):
        Path("own_helper.py").write_text(f"BITS = {bits}\n")
        Path("own_far.py").write_text("from own_helper import BITS\n")
        Path("own_package/part.py").write_text("from . import other\nBITS = other.BITS\n")
        Path("own_package/other.py").write_text(f"BITS = {bits}\n")
        sys.modules.pop("own_package.other", None)
        found.append(digest(start, body))

    assert None not in found
    assert found[0] == found[2] != found[1]


def test_other_modules_do_not_change_the_digest() -> None:
    Path("own_helper.py").write_text("BITS = 8\n")
    first = digest()
    Path("own_helper.py").write_text("BITS = 4\n")

    assert first == digest()


def test_edit_of_loaded_module_is_not_its_digest() -> None:
    """The digest is of the code that runs."""
    Path("own_helper.py").write_text("BITS = 8\n")
    first = digest("import own_helper")
    Path("own_helper.py").write_text("BITS = 4\n")

    assert own_code.sha256(schemes.parse("s.py:S")) == first


@pytest.mark.parametrize(
    "start",
    [
        "import importlib; h = importlib.import_module('own_helper')",
        "h = __import__('own_helper')",
        "exec('BITS = 8')",
        "import runpy; h = runpy.run_path('own_helper.py')",
    ],
)
def test_code_that_cannot_be_known_has_no_digest(start: str) -> None:
    Path("own_helper.py").write_text("BITS = 8\n")

    assert digest(start) is None


@pytest.mark.parametrize(
    ("start", "body", "used"),
    [
        pytest.param("import numpy as np; T = np.load('t.npy')", "pass", False, id="when imported"),
        pytest.param("", "import numpy as np; np.load('t.npy')", True, id="in a hook"),
        pytest.param("import own_helper", "pass", False, id="in a helper"),
    ],
)
def test_changed_data_file_changes_the_digest(start: str, body: str, used: bool) -> None:
    import numpy as np

    Path("own_helper.py").write_text("from pathlib import Path\nT = Path('t.npy').read_bytes()\n")
    found = []
    for value in (1, 2, 1):
        np.save("t.npy", np.array([value]))
        found.append(digest(start, body, used))

    assert found[0] == found[2] != found[1]


def test_file_of_a_parameter_is_part_of_the_digest() -> None:
    found = []
    for text in ("a", "b", "a"):
        Path("factors").write_text(text)
        found.append(digest(spec="s.py:S:file=factors"))

    assert found[0] == found[2] != found[1]


def test_schemes_of_refemu_depend_on_the_files_they_name() -> None:
    Path("factors").write_text("a")
    first = own_code.sha256(schemes.parse("harmonia-kv4:smoothing=factors"))
    Path("factors").write_text("b")

    assert first != own_code.sha256(schemes.parse("harmonia-kv4:smoothing=factors"))
    assert own_code.sha256(schemes.parse("harmonia-kv4")) == ""
