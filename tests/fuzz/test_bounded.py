"""Claims of a file are checked against its contents before memory or time is spent; each runs in its own process.

Memory is measured, not limited to the right amount: under a limit, a bomb would end in an error for lack of memory.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden
from refemu.golden.files import manifest
from tests.fuzz import samples as good
from tests.models import toy_files

PEAK = 600 << 20  #: bytes: start-up, compiling a kernel included, takes half of it
BOMB = 700 << 20  #: bytes that a small file inflates to
ADDRESSES = 8 << 30  #: bytes, so that a claim that is believed does not exhaust the machine
TIMEOUT = 300  #: seconds: a hundred times what an error takes; a claim that is believed takes hours
#: peak of this process alone: ru_maxrss includes that of its parent
CHILD = f"""
import re, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({ADDRESSES}, {ADDRESSES}))
from refemu.cli import main
code = main(sys.argv[1:])
print(code, 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> good.Samples:
    return good.make(tmp_path_factory.mktemp("good"))


def measured(words: list[str], stdin: Any = subprocess.DEVNULL) -> tuple[int, int, str]:
    """Exit code, peak of memory in bytes, and all output."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    code, peak = done.stdout.splitlines()[-1].split()
    return int(code), int(peak), done.stdout + done.stderr


def bomb(folder: Path, member: str) -> Path:
    """Zeros, a thousand times smaller on disk than their header says."""
    path = folder.parent / f"{member}.npz"
    if path.is_file():
        return path
    header = {"descr": "|u1", "fortran_order": False, "shape": (BOMB,)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(member, "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)  # type: ignore[arg-type]
        for _ in range(BOMB >> 20):
            stream.write(bytes(1 << 20))
    assert path.stat().st_size < BOMB // 100
    return path


def answer_of_another_shape(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    return ["diff", str(samples.sets[0].folder), str(bomb(folder, "out.q.npy"))], 2, r"out.q: shape must be (6,), got ("


def answer_of_an_unknown_name(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    return ["diff", str(samples.sets[0].folder), str(bomb(folder, "out.z.npy"))], 2, "array out.z is not an output of"


def vectors_of_another_shape(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    place = Path(shutil.copytree(samples.sets[0].folder, folder / "concat-a4"))
    (place / "vectors.npz").unlink()
    (place / "vectors.npz").symlink_to(bomb(folder, "out.q.npy"))
    return ["check", str(place)], 1, "array flags is missing"


def seeds_beyond_the_rows(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    golden.generate(folder, units=["fp2half"], configs=["paper"], kinds=["random"])
    path = folder / "fp2half-paper/manifest.json"
    told = json.loads(path.read_text())
    told["generator"]["random"]["seeds"] = 10**9
    path.write_bytes(manifest.canonical(manifest.sealed(told)))
    return ["check", str(folder / "fp2half-paper")], 1, "1000000000 seeds give 128000000000 rows, the set has"


def rows_beyond_the_vectors(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    """A manifest without contradiction: only the vectors show that rows are missing."""
    golden.generate(folder, units=["fp2half"], configs=["paper"], kinds=["random"])
    path = folder / "fp2half-paper/manifest.json"
    told = json.loads(path.read_text())
    told["generator"]["random"]["seeds"] = 10**9
    told["rows"] = told["min_rows"] = told["cases"][0]["cases"] = 10**12
    told["cases"] = told["cases"][:1]
    for entry in told["arrays"]:
        entry["shape"][0] = 10**12
    path.write_bytes(manifest.canonical(manifest.sealed(told)))
    return ["check", str(folder / "fp2half-paper")], 1, "its arrays need "


def blocks_of(kind: str, key: str) -> Callable[[good.Samples, Path], tuple[list[str], int, str]]:
    def make(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
        place = Path(shutil.copytree(samples.models[kind], folder / "m"))
        told = json.loads((place / "config.json").read_text()) | {key: 1 << 63}
        (place / "config.json").write_text(json.dumps(told))
        return ["ppl", "--model", str(place)], 2, "must have a tensor for each of 9223372036854775808 blocks"

    make.__name__ = f"blocks_of_{kind}"
    return make


def blocks_of_gguf(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    path = toy_files.write_gguf(
        folder / "m.gguf", toy_files.values(toy_files.CONFIG), settings={"llama.block_count": (1 << 32) - 1}
    )
    return ["ppl", "--model", str(path)], 2, "must have a tensor for each of 4294967295 blocks, got 20 tensors"


def condition(text: str) -> Callable[[good.Samples, Path], tuple[list[str], int, str]]:
    def make(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
        return ["step", "orizuru", "--break", text], 2, "a value would have more than 4096 bits"

    make.__name__ = f"condition {text}"
    return make


def range_of_blocks(samples: good.Samples, folder: Path) -> tuple[list[str], int, str]:
    return (
        ["generate", "-o", str(folder), "--layer", "0-99999999999", "--tokens", "1"],
        2,
        "--layer takes blocks such as 0-3,7 or all",
    )


CLAIMS = [
    answer_of_another_shape,
    answer_of_an_unknown_name,
    vectors_of_another_shape,
    seeds_beyond_the_rows,
    rows_beyond_the_vectors,
    blocks_of("llama", "num_hidden_layers"),
    blocks_of("gpt2", "n_layer"),
    blocks_of("opt", "num_hidden_layers"),
    blocks_of("bert", "num_hidden_layers"),
    blocks_of_gguf,
    condition("1<<(1<<40)"),
    condition("(1<<200000000)*(1<<200000000) == 1"),
    condition("1<<(1<<33)"),
    range_of_blocks,
]


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_false_claim_fails_without_memory_or_time(
    claim: Callable[[good.Samples, Path], tuple[list[str], int, str]], samples: good.Samples, tmp_path: Path
) -> None:
    words, code, message = claim(samples, tmp_path)
    ended, peak, said = measured(words)

    assert (ended, message in said) == (code, True), said
    assert peak < PEAK, f"{peak >> 20} MB"


def test_endless_line_fails_without_being_collected(tmp_path: Path) -> None:
    """The output of a device that never stops is not collected."""
    (tmp_path / "endless").write_bytes(b"f" * (BOMB // 2))
    with (tmp_path / "endless").open("rb") as stream:
        ended, peak, said = measured(["check", "--stdin", "--unit", "concat"], stream)

    assert ended == 2 and "check: a line has at most" in said
    assert peak < PEAK // 2, f"{peak >> 20} MB"
