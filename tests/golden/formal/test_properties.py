"""Properties hold for example designs and fail for wrong ones, by the script for yosys."""

import subprocess
from pathlib import Path

import pytest

from examples.rtl import benches
from refemu.golden.formal import properties
from tests.golden.formal.formal_references import DESIGNS, needs_solver, needs_yosys, reference_of, write

pytestmark = [pytest.mark.long, needs_solver]


def yosys(spec: str, tmp_path: Path, was: str = "", now: str = "") -> tuple[int, str]:
    """Exit code and output of the script on an example design, in which a text was replaced."""
    unit = spec.partition(":")[0]
    text = "".join((benches.HERE / name).read_text() for name in DESIGNS[spec])
    assert was in text
    (write(spec, tmp_path) / f"{unit}.v").write_text(text.replace(was, now))
    words = ["yosys", "-q", "-s", f"{unit}.ys"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    return ran.returncode, ran.stdout + ran.stderr


@needs_yosys
@pytest.mark.parametrize("spec", [spec for spec, sources in DESIGNS.items() if sources])
def test_properties_hold_for_example_design(spec: str, tmp_path: Path) -> None:
    code, output = yosys(spec, tmp_path)

    assert code == 0, output


@needs_yosys
@pytest.mark.parametrize(
    ("spec", "was", "now"),
    [
        ("ovp_decoder:int4", "{2'b00, code[2:1]}", "{3'b000, code[1]}"),
        ("olive_mac:wrap", "acc <= load", "acc <= acc == 77 ? 1 : load"),
    ],
)
def test_properties_fail_for_wrong_design(spec: str, was: str, now: str, tmp_path: Path) -> None:
    code, output = yosys(spec, tmp_path, was, now)

    assert code != 0 and "proof did fail" in output


def test_masked_lanes_are_not_compared() -> None:
    text = properties.text(reference_of("bfp_aligner:paper"))

    assert "((mantissa ^ expected_mantissa) & care_mantissa) == 0" in text
    assert "assume_legal: assume (ref_legal)" in text
