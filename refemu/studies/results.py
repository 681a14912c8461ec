"""Saved results of measurements, found again by everything that they depend on.

A result is a JSON file of $REFEMU_HOME/measured, named after the sha256 of what it depends on: the step's description,
the model's weights, and the sources of refemu that compute. It is written atomically. An unreadable or changed file is
measured again.
"""

import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from refemu import checked_json
from refemu.home import cache_folder
from refemu.models import schemes
from refemu.models.schemes import offline_file, own_code
from refemu.models.schemes.kind import kind_of

PACKAGE = Path(__file__).parents[1]
LAYERS = ("arith", "formats", "units", "models", "studies")  #: layers whose sources results depend on
#: their folders and files that no result depends on
APART = (
    "cases.py",
    "variants.py",
    "variants",
    "fetch",
    "machine",
    "output",
    "figures.py",
    "results.py",
    "steps.py",
    "token_ids.py",
)
SCHEMES = PACKAGE / "models" / "schemes"  #: a folder for each paper


class ResultStore:
    """The saved results of a folder."""

    def __init__(
        self, paper: str, folder: Path | None = None, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        """Open the results of a paper's schemes. paper: folder of its schemes.

        Sources of other papers' schemes count only for results under those schemes.

        folder: by default the user's. notice: called once if results cannot be saved.
        """
        self._folder = cache_folder() / "measured" if folder is None else folder
        self._paper = paper
        self._notice = notice
        self._writable = True

    def __repr__(self) -> str:
        return f"ResultStore({str(self._folder)!r})"

    def path(self, depends: Mapping[str, Any], suffix: str = ".json") -> Path:
        """The file of a result. depends: JSON values."""
        digest = sources(*sorted({self._paper, *folders(depends.get("scheme", ""))}))
        text = json.dumps(
            {**depends, "sources": digest, **_own_code(depends.get("scheme", ""))},
            sort_keys=True,
            separators=(",", ":"),
        )
        return self._folder / (hashlib.sha256(text.encode()).hexdigest()[:40] + suffix)

    def get(self, depends: Mapping[str, Any]) -> Any | None:
        """The result that depends on these values, or None."""
        entry = checked_json.load(self.path(depends))
        return entry["value"] if entry and entry["depends"] == json.loads(json.dumps(depends)) else None

    def put(self, depends: Mapping[str, Any], value: Any) -> None:
        """Save a result, a JSON value, atomically. Results with NaN or infinity are not saved: JSON has neither."""
        with contextlib.suppress(ValueError):
            self.write(self.path(depends), checked_json.dump({"depends": depends, "value": value}))

    def write(self, path: Path, data: bytes) -> None:
        """Write a file of the folder; if that fails, call `notice` once and continue."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            offline_file.save(path, data)
        except OSError as error:
            if self._writable:
                self._notice(f"{path.parent}: {error.strerror or error}; results are not saved")
            self._writable = False


@cache
def folders(scheme: str) -> frozenset[str]:
    """Folders of the schemes in a text, for a mix those of its parts and that of mixes; none for ""."""
    config: Any = schemes.parse(scheme) if scheme else None
    configs = [] if config is None else [config, *(part.scheme for part in getattr(config, "parts", ()))]
    return frozenset(f".{type(each).__module__}".split(".")[-2] for each in configs)


def _own_code(scheme: str) -> dict[str, list[str]]:
    """Digests of the code of schemes outside refemu and of the files that schemes read; a random word for unknown code.

    Its result is saved, and never found again.
    """
    config: Any = schemes.parse(scheme) if scheme else None
    configs = [] if config is None else [config, *(part.scheme for part in getattr(config, "parts", ()))]
    digests = [own_code.sha256(each, kind_of(each).prepare) for each in configs]
    return {"code": [secrets.token_hex() if each is None else each for each in digests]} if {*digests} - {""} else {}


@cache
def sources(*papers: str) -> str:
    """sha256 over the sources that compute results under the schemes of some folders, and their names."""
    others = {path.name for path in SCHEMES.iterdir() if path.is_dir()} - {*papers, "fp16"}
    digest = hashlib.sha256()
    files = (path for layer in LAYERS for path in (PACKAGE / layer).rglob("*.py"))
    for path in sorted(files):
        name = path.relative_to(PACKAGE)
        if not set(name.parts) & (others | set(APART)):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
