"""The C client: golden sets through a live server, an error message for every misuse, and no hangs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.golden.rtl import dpi
from tests import sanitizers

COMPILER = shutil.which("cc") or shutil.which("gcc")
REFEMU = f"{sys.executable} -m refemu"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
CONFIGS = [
    pytest.param(name, config, id=f"{name}-{config}") for name in units.names() for config in units.find(name).configs
]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
SECONDS = 300  #: after which a program hangs


def with_refemu(command: str = REFEMU, **more: str) -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "REFEMU": command, **more}


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_every_unit_has_sources(name: str, config: str) -> None:
    unit = units.find(name)
    texts = {file: text.decode("ascii") for file, text in dpi.files(unit, config).items()}

    assert set(texts) == {
        *("refemu_dpi.c", "refemu_dpi.h", "client.c", "Makefile"),
        *(f"{name}_dpi.h", f"{name}_dpi.c", f"{name}_dpi_pkg.sv", f"tb_{name}_random.sv"),
    }
    for port in unit.ports(unit.config(config)).inputs:
        assert f"{name}_set_{port.name}(" in texts[f"{name}_dpi.h"]
        assert f".{port.name}(in.{port.name})" in texts[f"tb_{name}_random.sv"]
    for port in unit.ports(unit.config(config)).outputs:
        assert f"{name}_get_{port.name}(" in texts[f"{name}_dpi.h"]
        assert f"want.{port.name})" in texts[f"tb_{name}_random.sv"]
    assert ("restart;" in texts[f"tb_{name}_random.sv"]) == (unit.timing == "event")
    assert ("--care" in texts[f"{name}_dpi.h"]) == (unit.care is not None)
    assert "$$" not in texts[f"tb_{name}_random.sv"] + texts["client.c"]


def test_name_option_renames_everything() -> None:
    texts = dpi.files(units.find("orizuru"), "n=4,k=1", "top4", registers=True)

    assert {"top4_dpi.h", "tb_top4_random.sv"} <= set(texts)
    assert b'#define TOP4_SPEC "orizuru:n=4,k=1 --registers"' in texts["top4_dpi.h"]
    assert b"  orizuru device (" in texts["tb_top4_random.sv"]
    for name in ("int", "Top", "4top", "a-b"):
        with pytest.raises(Refused, match="export dpi --name"):
            dpi.files(units.find("orizuru"), "n8", name)


def exported(folder: Path, *words: str) -> Path:
    assert main(["export", "dpi", *words, "-o", str(folder)]) == 0
    return folder


def make(folder: Path, target: str, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", "-s", target, f"REFEMU={REFEMU}", *words]
    environment = {**with_refemu(), **more}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, env=environment)


@needs_compiler
@pytest.mark.parametrize("spec", ["fp16_mac", "ovp_decoder", "orizuru:n=6,k=2", "bfp_pe", "bfp_aligner"])
def test_c_client_gets_the_golden_rows(spec: str, tmp_path: Path) -> None:
    exported(tmp_path, spec)
    strict = f"CFLAGS={' '.join([*STRICT, *sanitizers.flags(COMPILER)])}"
    ran = make(tmp_path, "client", strict)
    assert (ran.returncode, ran.stderr) == (0, "")
    name = units.choose(spec)[0].name
    assert ran.stdout.startswith("PASS ") and f" rows of {name}-" in ran.stdout


@needs_compiler
def test_c_client_detects_a_changed_row(tmp_path: Path) -> None:
    """A changed row of a sequential unit in single steps, and a truncated set."""
    exported(tmp_path, "olive_mac")
    gold = tmp_path / "olive_mac-wrap" / "hex" / "gold.mem"
    lines = gold.read_text().splitlines()
    changed = f"{int(lines[30], 16) ^ 1:0{len(lines[30])}x}"
    gold.write_text("\n".join([*lines[:30], changed, *lines[31:]]) + "\n")
    ran = make(tmp_path, "client", "ARGS=--single")
    assert ran.returncode != 0 and "FAIL 1 of " in ran.stdout and "the first is row 29" in ran.stdout

    gold.write_text("\n".join(lines[:-1]) + "\n")
    ran = make(tmp_path, "client")
    assert ran.returncode != 0 and "no sentinel" in ran.stdout


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The lines of a run of `probe`."""
    folder = tmp_path_factory.mktemp("probe")
    program = folder / "probe"
    source = Path(__file__).with_name("probe.c")
    texts = [dpi.TEXTS / "refemu_dpi.c", source]
    checked = [*STRICT, *sanitizers.flags(COMPILER)]
    subprocess.run([str(COMPILER), *checked, f"-I{dpi.TEXTS}", "-o", program, *texts, "-pthread"], check=True)
    wrapper = folder / "refemu here"  # a path with a space is one word
    wrapper.write_text(f'#!/bin/sh\necho $$ > "$PROBE_PID"\nexec {REFEMU} "$@"\n')
    wrapper.chmod(0o755)

    def run(*words: str, command: str = str(wrapper)) -> list[str]:
        environment = with_refemu(command, PROBE_PID=str(folder / "pid"))
        ran = subprocess.run([program, *words], capture_output=True, text=True, timeout=SECONDS, env=environment)
        assert ran.returncode == 0, ran
        assert ran.stderr == ""
        lines = ran.stdout.splitlines()
        assert lines.pop() == "end"
        return lines

    return run


@needs_compiler
def test_steps_and_errors_with_two_handles(probe: Callable[..., list[str]]) -> None:
    """An invalid transaction leaves handle and state; a second handle has its own server."""
    mac = "olive_mac"
    lines = probe(
        *("open", mac, "words", "set", "0", "0000000b", "step", "set", "0", "0", "step"),
        *("again", mac, "step", "reset", "close", "step", "swap", "step", "reset", "step", "run", "140000", "close"),
        *("close", "reset", "run", "2"),
    )

    assert lines[:4] == ["open 0 ", "words 2 2", "step 0 ", lines[3]]
    assert lines[3] != "out 00000000 00000000" and lines[5] == lines[3]  # the register has the loaded value
    assert lines[6:9] == ["again 0 ", "step 0 ", "out 00000000 00000000"]
    assert lines[9:12] == ["reset 0 ", "close 0 ", "step 2 refemu_step: the handle of olive_mac was closed"]
    assert lines[13:15] == ["step 0 ", lines[3]]
    assert lines[15:18] == ["reset 0 ", "step 0 ", "out 00000000 00000000"]
    assert lines[19] == "close 0 "
    closed = "the handle of olive_mac was closed"
    assert lines[20] == f"close 2 refemu_close: {closed}" and lines[21].startswith("reset 2 refemu_")


@needs_compiler
def test_invalid_transaction_is_reported(probe: Callable[..., list[str]]) -> None:
    lines = probe("open", "bfp_pe", "set", "0", "3", "step", "run", "2", "set", "0", "0", "step", "close")

    assert lines[1].startswith("step 1 bfp_pe") and "mode" in lines[1]
    assert lines[3].startswith("run 1 bfp_pe") and "mode" in lines[3]
    assert lines[4] == "step 0 " and lines[-1] == "close 0 "


@needs_compiler
@pytest.mark.parametrize(
    ("command", "spec", "sentence"),
    [
        ("/no/such/refemu", "ovp_decoder", "cannot start /no/such/refemu: No such file or directory; set $REFEMU"),
        ("no-such-refemu", "ovp_decoder", "ended with exit code 127; its last output: cannot start no-such-refemu"),
        (REFEMU, "ovp_decodre", "exit code 2; its last output: refemu: unknown unit 'ovp_decodre'"),
        (REFEMU, "orizuru:n=0", "exit code 2; its last output: refemu: orizuru: n"),
        (REFEMU, "", "exit code 2; its last output: "),
        ("echo hello, this is no", "ovp_decoder", "its first output is not a hello of refemu serve"),
        ("true", "ovp_decoder", "no hello: the process ended with exit code 0"),
        (" ", "ovp_decoder", "$REFEMU must be a command"),
    ],
    ids=("no file", "no command", "unknown unit", "no size", "no unit", "no hello", "end", "blank"),
)
def test_an_open_that_fails_says_why(command: str, spec: str, sentence: str, probe: Callable[..., list[str]]) -> None:
    lines = probe("open", spec, "step", command=command)  # several lines if argparse prints its usage

    assert lines[0].startswith("open 1 ") and sentence in lines[0]
    assert "step 2 refemu_step: the handle is not one of refemu_open, got NULL" in lines


@needs_compiler
def test_sources_of_another_unit_do_not_open(probe: Callable[..., list[str]]) -> None:
    lines = probe("wrong", "flint_decoder", "digest", "flint_decoder")

    assert "made for another unit, configuration or version: words in 7, out 7" in lines[0]
    assert "digest 0000" in lines[1]


@needs_compiler
def test_killed_process_is_an_error_without_signal(probe: Callable[..., list[str]]) -> None:
    lines = probe("open", "flint_decoder", "step", "kill", "step", "step", "reset", "close")

    sentence = "flint_decoder: the process no longer reads: the process was ended by signal 9"
    assert lines[3] == f"step 2 {sentence}"
    assert [line.partition(" flint")[0] for line in lines[5:]] == [
        "step 2",
        "out 00000000 00000000",
        "reset 2",
        "close 2",
    ]
    assert "signal 9" in lines[-1]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_export_preserves_edits_and_rejects_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported(tmp_path, "flint_decoder")
    bench_file = tmp_path / "tb_flint_decoder_random.sv"
    bench_file.write_text(bench_file.read_text() + "// mine\n")
    (tmp_path / "client.c").unlink()
    capsys.readouterr()
    exported(tmp_path, "flint_decoder")
    assert f"not overwritten: {bench_file}; this version" in capsys.readouterr().out
    assert bench_file.read_text().endswith("// mine\n") and (tmp_path / "client.c").exists()

    before = contents(tmp_path)
    assert main(["export", "dpi", "outlier_decoder", "-o", str(tmp_path)]) == 2
    assert "belongs to another unit or configuration" in capsys.readouterr().err
    assert contents(tmp_path) == before

    (tmp_path / "refemu_dpi.c").write_text("int mine;\n")
    before = contents(tmp_path)
    assert main(["export", "dpi", "flint_decoder", "-o", str(tmp_path)]) == 2
    assert "refemu_dpi.c: differs from what this refemu writes" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_folder_of_export_rtl_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "rtl", "flint_decoder", "-o", str(tmp_path)]) == 0
    before = contents(tmp_path)

    assert main(["export", "dpi", "flint_decoder", "-o", str(tmp_path)]) == 2
    assert "Makefile: differs from what this refemu writes" in capsys.readouterr().err
    assert contents(tmp_path) == before
