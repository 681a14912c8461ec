"""The folder of the user's cache."""

from pathlib import Path

import pytest

from refemu.home import cache_folder


def test_refemu_home_overrides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path))

    assert cache_folder() == tmp_path


def test_default_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REFEMU_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_folder().name == "refemu"
