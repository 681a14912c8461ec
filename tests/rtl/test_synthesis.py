"""yosys synthesizes every design of examples/rtl and rejects the others; stimulus by constraints is solved."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from examples.rtl import benches, constrained, cores, synthesis
from tests.rtl.test_rtl_examples import DESIGNS, needs


def needs_yosys() -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which("yosys"), reason="no yosys on PATH (`make rtl` installs it)")


@needs_yosys()
@pytest.mark.parametrize("name", ["ovp_decoder-int4", "fp16_mac-ieee", "orizuru_clocked-n8", "olive_systolic_4x4"])
def test_yosys_synthesizes_a_design(name: str) -> None:
    """`make rtl` needs all of these tools."""
    found = synthesis.synthesized(name, *synthesis.designs()[name])

    assert found.right and found.cells > 0, found.output


@needs_yosys()
def test_yosys_rejects_other_designs_with_reason() -> None:
    refused = list(synthesis.refused())

    assert len(refused) == len(synthesis.PLANTED) >= 6
    assert [one for one in refused if not one.right] == []


def test_nothing_passes_without_yosys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert synthesis.main([]) == 1
    assert "apt-get install yosys" in capsys.readouterr().err


def test_every_design_and_core_is_synthesized() -> None:
    assert synthesis.designs().keys() == {*DESIGNS, *(core.top for core in cores.CORES)}


@pytest.mark.parametrize(
    "unit",
    [
        *("fp16_mac", "olive_mac", "olive_edp", "olive_systolic", "concat", "prefix_sum", "fp2half", "bfp_accumulator"),
        *("ovp_decoder", "orizuru", "index_counter", "bfp_aligner", "bfp_pe", "free_page_list", "pe_lane"),
    ],
)
def test_a_block_of_the_papers_has_rtl(unit: str) -> None:
    assert unit in {design.unit for design in [*benches.DESIGNS, *(core.design for core in cores.CORES)]}


@needs("verilator")
@pytest.mark.slow
def test_stimulus_by_constraints_needs_its_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not shutil.which("z3"):
        pytest.skip("no z3 on PATH (`make rtl` installs it)")

    assert [one for one in constrained.held(tmp_path / "live") if not one.right] == []
