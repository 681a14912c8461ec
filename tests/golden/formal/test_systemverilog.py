"""The SystemVerilog reference passes golden sets in simulators, and a wrong one fails."""

from pathlib import Path

import pytest

from examples.rtl import benches
from refemu.golden.formal import systemverilog
from tests.golden.formal.formal_references import DESIGNS, FLOATS, needs_solver, reference_of, write

pytestmark = needs_solver


def simulate(spec: str, simulator: str, tmp_path: Path, was: str = "", now: str = "") -> "tuple[int, str]":
    """Exit code and output of the bench of a unit on its reference, in which a text was replaced."""
    unit, config = spec.split(":")
    design = benches.Design(unit, config, ())
    folder = benches.export(design, tmp_path)
    source = write(spec, tmp_path / "formal") / f"{unit}_ref.sv"
    text = source.read_text()
    assert was in text
    source.write_text(text.replace(was, now, 1))
    words = benches.program(design, simulator)
    built = benches.make(words[-1], folder, [source], f"TOP={unit}_ref", quick=True)
    assert built.returncode == 0, built.stdout + built.stderr
    ran = benches.call([*words, f"+VEC={folder / design.set}"], folder)
    return ran.returncode, ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("spec", [*DESIGNS, *FLOATS])
def test_reference_passes_golden_set(spec: str, simulator: str, tmp_path: Path) -> None:
    if why := benches.absent(simulator):
        pytest.skip(why)

    code, output = simulate(spec, simulator, tmp_path)

    assert code == 0 and f"rows of {spec.replace(':', '-')}" in output and "PASS " in output, output


@pytest.mark.long
@pytest.mark.parametrize(
    ("spec", "was", "now"),
    [
        ("ovp_decoder:int4", "== 5'h8", "== 5'h9"),
        ("olive_mac:wrap", "32'h80000000", "32'h80000001"),
        ("fp16_mac:paper", "16'h7e00", "16'h7f00"),
    ],
)
def test_wrong_reference_fails_golden_set(spec: str, was: str, now: str, tmp_path: Path) -> None:
    if why := benches.absent("icarus"):
        pytest.skip(why)

    code, output = simulate(spec, "icarus", tmp_path, was, now)

    assert code != 0 and "PASS " not in output


@pytest.mark.long
def test_signals_have_names_of_the_text() -> None:
    text = systemverilog.text(reference_of("ovp_decoder:int4"))

    assert all(f" {name} = " in text for name in ("decode_left", "decode_exponent_field", "is_illegal", "decode_sign"))


@pytest.mark.long
def test_register_port_has_its_reset_value() -> None:
    text = systemverilog.text(reference_of("olive_mac:wrap"))

    assert "  input  wire [31:0] q_acc,\n" in text
    assert "    acc_q <= rst ? 32'h0 : next_acc;\n" in text
