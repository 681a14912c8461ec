"""Libraries of an extra: imported on demand; an error names the command that installs them."""

import sys

import pytest

from refemu.arith.checks import Refused
from refemu.models.extras import need


def test_an_installed_library_is_returned() -> None:
    assert need("json", "reading JSON") is sys.modules["json"]


def test_a_missing_library_is_rejected_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)

    with pytest.raises(Refused, match=r"reading a GGUF file needs the library gguf .*pip install gguf"):
        need("gguf", "reading a GGUF file")
