"""Contents of a folder of a regression: sets, answers, logs of testbenches, campaigns.

A set in folder S of folder P has answers in `S/answers.*`, `P/S.answers.*`, in the logs and `P/build/dut.mem` of a
testbench in P, and, if the pytest plugin saved it, in `P/dut.npz`. Names that begin with a dot are ignored.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refemu.golden.compare import check
from refemu.golden.files import sets
from refemu.golden.files.sets import Golden
from refemu.golden.make.regenerate import SAVED

ANSWERS = "answers"  #: `answers.npz` in the folder of a set, `<set>.answers.npz` next to it; any extension
BENCH_ANSWER = Path("build", "dut.mem")  #: written by `make diff` of a testbench
SAVED_ANSWER = "dut.npz"  #: next to a saved counterexample


@dataclass(frozen=True)
class Files:
    """Paths of the parts of a regression."""

    sets: tuple[Path, ...]  #: folders
    logs: tuple[Path, ...]
    campaigns: tuple[Path, ...]  #: folders


def find(root: Path, request: str) -> Files:
    """Parts of a regression at or below `root`. request: name of the file that marks a campaign.

    Refused: there is no set.
    """
    folders = check.find(root)
    logs, campaigns = [], []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        logs += [Path(folder, name) for name in sorted(files) if name.endswith(".log") and not name.startswith(".")]
        campaigns += [Path(folder)] * (request in files)
    return Files(tuple(folders), tuple(logs), tuple(campaigns))


def is_counterexample(golden: Golden) -> bool:
    """Whether the pytest plugin saved this set."""
    return bool(golden.manifest["generator"].get("model", {}).get("function") == SAVED)


def rows_by_kind(golden: Golden) -> dict[str, int]:
    """Rows of each kind of case."""
    rows: dict[str, int] = {}
    for case in golden.manifest["cases"]:
        rows[case["kind"]] = rows.get(case["kind"], 0) + case["cases"] * case["rows"]
    return rows


def bench_of(folder: Path, golden: Golden) -> Path | None:
    """The folder of the testbench that `refemu export rtl` wrote next to a set, if any. folder: of the set."""
    return folder.parent if (folder.parent / f"tb_{golden.manifest['unit']}.v").is_file() else None


def answers(folder: Path, golden: Golden) -> list[Path]:
    """Files with answers to a set. folder: of the set."""
    beside = f"{folder.name}.{ANSWERS}."
    inside = [path for path in _files(folder) if path.name.startswith(f"{ANSWERS}.")]
    places = [*inside, *(path for path in _files(folder.parent) if path.name.startswith(beside))]
    if bench_of(folder, golden) and (folder.parent / BENCH_ANSWER).is_file():
        places.append(folder.parent / BENCH_ANSWER)
    if is_counterexample(golden) and (folder.parent / SAVED_ANSWER).is_file():
        places.append(folder.parent / SAVED_ANSWER)
    return places


def names_of(path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Folders of a log's sets by its name and place: inside a set, or next to it and named after it."""
    for folder in folders:
        beside = path.parent == folder.parent and path.name.startswith(f"{folder.name}.")
        if beside or path.parent == folder:
            yield folder


def is_set(folder: Path) -> bool:
    """Whether a folder has both files of a set."""
    return (folder / sets.MANIFEST).is_file() and (folder / sets.VECTORS).is_file()


def is_output(name: str) -> bool:
    """Whether an array of a set holds expected answers."""
    return name.startswith("out.") and not name.endswith(".care")


def port(name: str) -> str:
    """The port of an array."""
    return name.partition(".")[2]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())
