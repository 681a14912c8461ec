"""References that tests share, one lift each, and their example designs."""

import functools
import importlib.util
import shutil
from pathlib import Path

import pytest

from refemu import units
from refemu.golden.formal import files, reference

needs_solver = pytest.mark.skipif(not importlib.util.find_spec("bitwuzla"), reason="no bitwuzla")
needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no cc on PATH; Debian, Ubuntu: apt-get install gcc")
needs_yosys = pytest.mark.skipif(
    not shutil.which("yosys"), reason="no yosys on PATH; Debian, Ubuntu: apt-get install yosys"
)
#: unit and configuration -> sources of an example design
DESIGNS = {
    "ovp_decoder:int4": ("ovp_decoder.v",),
    "olive_mac:wrap": ("olive_mac_core.v", "olive_mac_wrap.v"),
    "concat:a4": ("concat_core.v", "concat_a4.v"),
    "bfp_aligner:paper": ("bfp_aligner.v",),
    "prefix_sum:paper": (),
}

#: units that compute with binary64
FLOATS = ("fp16_mac:paper", "fp2half:paper", "index_product:w4a4")


@functools.cache
def reference_of(spec: str) -> reference.Reference:
    """The reference of a unit."""
    return reference.reference(*units.choose(spec))


def write(spec: str, folder: Path) -> Path:
    """Its files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.files(reference_of(spec)).items():
        (folder / name).write_bytes(content)
    return folder
