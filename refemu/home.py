"""The cache folder of downloaded and compiled files, and checks of its owner."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_OTHERS_WRITE = 0o022


def user_path(text: str | Path) -> Path:
    """Parse a path; a leading `~` or `~name` becomes a home folder. Refused: an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        from refemu.arith.checks import Refused  # here, since it imports NumPy

        raise Refused(f"{text}: {error}") from None


def cache_folder() -> Path:
    """$REFEMU_HOME, or refemu in the user's cache folder."""
    home = os.environ.get("REFEMU_HOME")
    if home:
        return user_path(home).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("refemu"))


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for this user only (mode 0700)."""
    for part in (*reversed(folder.parents), folder):
        if not part.is_dir():
            part.mkdir(0o700, exist_ok=True)


def exposed(root: Path, folder: Path) -> str:
    """Find what others own or can write: `root`, `folder`, a folder between, or anything in `folder`; "" if nothing.

    Links inside count as exposed. On systems without user ids nothing does; they control access in another way.
    """
    if not hasattr(os, "geteuid"):
        return ""
    for path in _parts(root, folder):
        with contextlib.suppress(FileNotFoundError):  # a temporary file of another process
            status = path.stat() if path == root else path.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                return f"{path} (owner {status.st_uid}, mode {status.st_mode & 0o7777:04o})"
    return ""


def _parts(root: Path, folder: Path) -> Iterator[Path]:
    yield root
    yield from (part for part in reversed(folder.parents) if part.is_relative_to(root) and part != root)
    yield folder
    for inside, folders, files in os.walk(folder):
        yield from (Path(inside, name) for name in (*folders, *files))
