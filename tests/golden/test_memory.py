"""32 million rows are explained and graded within 2 GB: memory grows by few bytes a row."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.golden.compare import answer_files, distance
from refemu.golden.explain import table
from refemu.golden.files import manifest as manifests
from refemu.golden.files import npz, sets, store
from refemu.golden.grade import answers, device
from tests.golden.explain import made

ROWS = 1 << 20
EACH = (2_000_000_000 - 400_000_000) // 32_000_000  #: bytes a row, in addition to what a small set needs
CLASSES = ("bits", "lanes", "order", "words", "reset", "use", "decisions")
#: Explains or grades the set and answer of 65,536 rows, then those of ROWS, with EACH bytes a row more at most.
CHILD = f"""
import re, resource, sys
from pathlib import Path
from refemu import golden
from refemu.golden.compare import answer_files, distance
from refemu.golden.explain import diagnosis, table
from refemu.golden.grade import answers, device

for module in (answer_files, distance, diagnosis, table, answers, device):
    module.PIECE = 1 << 15
folder = Path(sys.argv[2])
for name in ("small", "large"):
    if name == "large":
        held = 1024 * int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
        resource.setrlimit(resource.RLIMIT_DATA, (held + {EACH} * {ROWS},) * 2)
    if sys.argv[1] == "explain":
        difference = golden.diff(folder / name, folder / (name + ".npz"), explain=True)
        assert difference.rows_differ == difference.rows and difference.explanations, difference
    else:
        assert golden.grade_set(folder / name, pool=1).rows > 1 << 15
"""


def repeated(rows: int, folder: Path) -> None:
    """A set of a small unit's random rows, repeated, and the answer of a device that is wrong in every row."""
    few = made.random("flint_decoder", "flint4", 64)
    times = -(-rows // few.rows)
    arrays = {name: array.repeat(times, axis=0) for name, array in few.arrays.items()}
    of = [
        {**entry, "shape": [len(arrays[entry["name"]]), *entry["shape"][1:]], "sha256": sha256(arrays, entry["name"])}
        for entry in few.manifest["arrays"]
    ]
    block = few.manifest["cases"][-1]
    count = few.rows * times
    manifest = {
        **few.manifest,
        "arrays": of,
        "cases": [{**block, "first": 0, "cases": count}],
        "rows": count,
        "min_rows": count,
    }
    store.replace(folder, sets.render(manifest, arrays))
    npz.write(folder.with_suffix(".npz"), {name: array ^ 1 for name, array in arrays.items() if name[:4] == "out."})


def sha256(arrays: dict[str, np.ndarray], name: str) -> str:
    return manifests.array_sha256(arrays[name])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize("what", ["explain", "grade"])
def test_memory_of_a_row_is_bounded(what: str, tmp_path: Path) -> None:
    repeated(1 << 16, tmp_path / "small")
    repeated(ROWS, tmp_path / "large")
    done = subprocess.run([sys.executable, "-c", CHILD, what, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["olive_mac-wrap", "concat-a4", "fp2half-paper"])
def test_results_do_not_depend_on_pieces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grade, and differences of a device with late answers, by pieces of one case and as a whole."""
    unit, _, config = name.partition("-")
    golden.generate(tmp_path, units=[f"{unit}:{config}"], kinds=("paper", "random"))
    late = {name: np.roll(array, 1, axis=0) for name, array in golden.load(tmp_path / name).arrays.items()}
    answer = {name: array for name, array in late.items() if name[:4] == "out." and name[-5:] != ".care"}
    found = []
    for piece in (1 << 20, 40, 1):
        for module in (answer_files, distance, table, answers, device):
            monkeypatch.setattr(module, "PIECE", piece)
        grade = golden.grade_set(tmp_path / name, CLASSES, pool=50)
        survivors = [(each.fault, each.outcome, each.row) for each in grade.survivors]
        counts = grade.classes, grade.toggle, grade.decisions, grade.flags
        found.append(repr((counts, survivors, golden.diff(tmp_path / name, answer, explain=True))))
    assert found[1] == found[0] == found[2]
