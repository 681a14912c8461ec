"""Build backend (PEP 517) that reports the name and version of a source archive and builds nothing.

`download` gives pip a copy of this file as `setuptools.build_meta`, with the metadata in the same folder. The archive's
`setup.py` is then not run, and no build tool is needed. Imports nothing of refemu.
"""

import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

#: the name that pip asks for where an archive has no pyproject.toml
__legacy__: ModuleType = sys.modules[__name__]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Copy the folder `*.dist-info` next to this file. Returns its name."""
    (answer,) = Path(__file__).parent.glob("*.dist-info")
    shutil.copytree(answer, Path(metadata_directory) / answer.name)
    return answer.name
