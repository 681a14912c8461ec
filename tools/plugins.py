"""Install examples/refemu-mx beside an installed refemu in a fresh environment, and use it there as a stranger would.

    python tools/plugins.py FOLDER

Neither is installed in place: what a wheel lacks is missing. Exit code 1 at the first command that does not do what it
should.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "examples" / "refemu-mx"
SET = "refemu-mx.mx_encoder-e2m1"
BROKEN = """[project]
name = "refemu-torn"
version = "0.1.0"
[project.entry-points."refemu.units"]
lost = "no_such_module:UNIT"
torn = "torn:UNIT"
shut = "shut:UNIT"
[project.entry-points."refemu.faults"]
concat = "torn:LIBRARY"
[tool.setuptools]
py-modules = ["torn", "shut"]
"""
TORN = "raise RuntimeError('no licence')\n"
SHUT = """from dataclasses import replace

from refemu.units import Config
from refemu_mx.mx_encoder import UNIT as RIGHT

UNIT = replace(RIGHT, name="shut", configs={"e9": Config(element="e9m9", rule="floor")})
"""
DEVICE = f"""
import numpy as np
from refemu import golden, units
loaded = golden.load("vec/{SET}")
unit = units.find("mx_encoder")
wrong = unit.run(loaded.arrays["in.x"], element="e2m1", rule="ceil")
clipped = wrong.clipped.astype("u1")
np.savez("wrong.npz", **{{"out.scale": wrong.scale, "out.codes": wrong.codes, "out.clipped": clipped}})
"""
TEST = """
from hypothesis import given
from refemu import units
from refemu.testing import hold, inputs

@given(inputs("mx_encoder", "e2m1"))
def test_a_device_that_never_clips(stimulus):
    right = units.find("mx_encoder").evaluate(units.find("mx_encoder").configs["e2m1"], stimulus)
    hold("mx_encoder", "e2m1", stimulus, clipped=0 * right.clipped)
"""


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    binaries = environment(folder)
    use(binaries, folder)
    print("refemu-mx beside an installed refemu: all as it should be")


def environment(folder: Path) -> Path:
    """The `bin` of a fresh environment with refemu and the plug-in, built from copies of their sources."""
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    for source, name in ((ROOT, "refemu"), (PLUGIN, "refemu-mx")):
        left_out = shutil.ignore_patterns(
            ".git", ".venv", "out", "build", "vectors", "*.egg-info", "__pycache__", "tests"
        )
        shutil.copytree(source, folder / name, ignore=left_out)
    pip(binaries, folder, f"{folder / 'refemu'}[test]")
    pip(binaries, folder, f"{folder / 'refemu-mx'}[test]")
    return binaries


def pip(binaries: Path, folder: Path, what: str) -> None:
    """Install one thing."""
    run([binaries / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", what], folder)


def use(binaries: Path, folder: Path) -> None:
    """Every command that takes a unit."""
    refemu = binaries / "refemu"
    where = run(
        [binaries / "python", "-c", "import refemu, refemu_mx; print(refemu.__file__, refemu_mx.__file__)"], folder
    )
    require(where.count("site-packages") == 2, f"both must be installed, not editable: {where}")
    require("mx_encoder" in run([refemu, "list", "units"], folder), "list units names mx_encoder")
    require("OCP_E4M3" in run([refemu, "list", "formats"], folder), "list formats names OCP_E4M3")
    run([refemu, "generate", "-o", "vec", "--unit", "mx_encoder:e2m1", "--unit", "mx_dot:e4m3_e4m3", "--hex"], folder)
    run([refemu, "check", "vec"], folder)
    require("F-mx-3" in run([refemu, "grade", f"vec/{SET}"], folder), "grade tries the unit's own faults")
    require("floor" in run([refemu, "explain", "D-mx-1"], folder), "explain knows the decisions of the plug-in")
    require("D-mx-11" in run([refemu, "list", "decisions"], folder), "list has the decisions of the plug-in")
    run([refemu, "step", "mx_encoder", "--case", f"vec/{SET}:0"], folder)
    run([binaries / "python", "-c", DEVICE], folder)
    told = run([refemu, "diff", f"vec/{SET}", "wrong.npz", "--explain"], folder, code=1)
    require("D-mx-1" in told and "ceil" in told, "diff --explain names the decision D-mx-1")
    for form in ("rtl", "sv", "dpi", "c"):
        run([refemu, "export", form, "mx_encoder", "--config", "e2m1", "-o", form], folder)
    if shutil.which("cc"):
        told = run(["make", "-C", "dpi", "client", f"PYTHON={binaries / 'python'}"], folder, path=binaries)
        require("PASS" in told, "the C client of the live predictor passes")
    campaign = ["generate", "-o", "campaign", "--unit", "mx_encoder:e2m1", "--cases", 4000, "--workers", 2]
    run([refemu, *campaign], folder)
    run([refemu, "check", "campaign"], folder)
    (folder / "test_device.py").write_text(TEST)
    test = [binaries / "python", "-m", "pytest", "-q", "test_device.py", "--refemu-save", "saved"]
    told = run(test, folder, code=1)
    require("counterexample saved" in told, "the pytest plug-in saves a counterexample")
    run([binaries / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", PLUGIN / "tests"], folder)
    run([binaries / "python", PLUGIN / "benchmark.py", 1024], folder)
    in_verilog(binaries, folder)
    run(
        [
            refemu,
            "ppl",
            "--model",
            "tiny",
            "--scheme",
            "mxfp4+leankv-k8v4",
            "--win",
            32,
            "--prefill",
            16,
            "--windows",
            1,
        ],
        folder,
    )
    started(binaries, folder)
    broken(binaries, folder)


def in_verilog(binaries: Path, folder: Path) -> None:
    """The Verilog encoder passes its set, which convicts its planted bugs; a simulator must be there in CI."""
    if not shutil.which("iverilog"):
        require(not os.environ.get("CI"), "no Icarus Verilog for the encoder in Verilog: apt-get install iverilog")
        print("-  no Icarus Verilog: the encoder in Verilog is left out")
        return
    told = run([binaries / "python", folder / "refemu-mx" / "rtl" / "run.py", "verilog"], folder)
    require("bugs are detected" in told, "the golden set convicts every planted bug")


def started(binaries: Path, folder: Path) -> None:
    """What `refemu new-unit` writes is installed, passes its tests, and has a set that grades; a change is seen."""
    refemu, python = binaries / "refemu", binaries / "python"
    run([refemu, "new-unit", "my_block"], folder)
    pip(binaries, folder, str(folder / "refemu-my-block"))
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "refemu-my-block/tests"]
    run(tests, folder)
    run([refemu, "generate", "-o", "mine", "--unit", "my_block"], folder)
    run([refemu, "grade", "mine/refemu-my-block.my_block-b8_even"], folder)
    source = folder / "refemu-my-block" / "src" / "refemu_my_block" / "my_block.py"
    text = source.read_text()
    require("else whole & 1)" in text, "my_block.py has its rule of ties")
    source.write_text(text.replace("else whole & 1)", "else 1 - whole & 1)"))
    pip(binaries, folder, str(folder / "refemu-my-block"))
    told = run(tests, folder, code=1)
    require("test_every_case_is_the_oracles[b8_even]" in told, "the oracle sees another rule of ties")


def broken(binaries: Path, folder: Path) -> None:
    """A plug-in that does not load is named; without refemu-mx its sets say what to install."""
    (folder / "torn").mkdir()
    for name, text in {"pyproject.toml": BROKEN, "torn.py": TORN, "shut.py": SHUT}.items():
        (folder / "torn" / name).write_text(text)
    pip(binaries, folder, str(folder / "torn"))
    refemu = binaries / "refemu"
    told = run([refemu, "list", "units"], folder)
    for name, why in {"lost": "No module named 'no_such_module'", "torn": "no licence", "shut": "got 'e9m9'"}.items():
        line = next((line for line in told.splitlines() if f"refemu-torn 0.1.0: unit {name} " in line), "nothing")
        require(why in line, f"list names {name} and says why, got {line}")
    require("mx_encoder" in told and "orizuru" in told, "list names what works beside what is torn")
    require("fault concat does not load" in told, "list names a fault library that does not load")
    run([refemu, "step", "torn"], folder, code=2)
    told = run([refemu, "explain", "concat"], folder)
    require("fault concat does not load" in told and "D-kllm-6" in told, "explain goes on without it, and says so")
    run([refemu, "check", "vec"], folder)
    run([binaries / "python", "-m", "pip", "uninstall", "-q", "-y", "refemu-mx"], folder)
    told = run([refemu, "check", "vec"], folder, code=2)
    require("distribution refemu-mx" in told, "a set of a plug-in that is not installed names its distribution")


def run(words: Sequence[object], folder: Path, code: int = 0, path: Path | None = None) -> str:
    """What a command printed; ends with exit code 1 where its exit code is another."""
    line = [str(word) for word in words]
    environ = os.environ | {"REFEMU_CACHE": os.environ.get("REFEMU_CACHE") or str(folder / "cache")}
    environ.pop("PYTHONPATH", None)
    if path is not None:
        environ["PATH"] = f"{path}{os.pathsep}{environ['PATH']}"
    ran = subprocess.run(line, cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(f"{ran.returncode}  {' '.join(line)[:140]}".replace("\n", " "), flush=True)
    require(ran.returncode == code, f"exit code {ran.returncode} instead of {code}:\n{ran.stdout}")
    return ran.stdout


def require(holds: bool, message: str) -> None:
    if not holds:
        sys.exit(f"plugins: {message}")


if __name__ == "__main__":
    main()
