"""Reference data of other programs, outside the repository. They are read, never copied.

Folder: environment variable REFEMU_ORACLE, by default `../shared/oracle`, next to the repository's root. Absent:
the tests are skipped and say so; where CI is "true" they fail.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(os.environ.get("REFEMU_ORACLE", Path(__file__).resolve().parents[3] / "shared" / "oracle"))


class Reference:
    """Arrays of the reference data by file and name: `reference("olive/sweep_int4")["q_left"]`."""

    def __call__(self, name: str) -> Mapping[str, np.ndarray]:
        """All arrays of one file."""
        path = FOLDER / f"{name}.npz"
        if not path.is_file():
            absent(f"no reference data at {path}: set REFEMU_ORACLE to their folder")
        return _load(path)


@cache
def _load(path: Path) -> Mapping[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def absent(message: str) -> None:
    """Skip, or fail where the data are required."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def reference() -> Reference:
    """The reference data, file by file."""
    return Reference()
