"""Build backend (PEP 517) that answers the name and version of a source archive, and builds nothing.

`download` gives pip a copy of this file as `setuptools.build_meta`, with the answer beside it, so that the archive's
`setup.py` is not run and no build tool is needed. Imports nothing of refemu.
"""

import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

#: the name under which pip asks where an archive has no pyproject.toml
__legacy__: ModuleType = sys.modules[__name__]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Copy the folder `*.dist-info` that lies beside this file. Returns its name."""
    (answer,) = Path(__file__).parent.glob("*.dist-info")
    shutil.copytree(answer, Path(metadata_directory) / answer.name)
    return answer.name
