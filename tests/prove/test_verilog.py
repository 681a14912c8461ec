"""Terms in Verilog have the values of terms."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from refemu.prove import terms, verilog
from refemu.prove.naming import Names
from refemu.prove.statements import statements
from tests.prove.random_terms import INPUTS, random_rows, random_terms

ROWS = 50


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog on PATH: apt-get install iverilog")
@pytest.mark.parametrize("seed", range(4))
def test_operations_have_the_values_of_terms(seed: int, tmp_path: Path) -> None:
    roots, rows = random_terms(seed), random_rows(seed, ROWS)
    lines, texts = statements(roots, Names(), {name: name for name in INPUTS}, set(INPUTS), verilog.LANGUAGE)
    body = [f"reg [{width - 1}:0] {name};" for name, width in INPUTS.items()]
    body += map(verilog.declared, lines)
    body += [
        f"wire [{root.width - 1}:0] out_{at} = {text};"
        for at, (root, text) in enumerate(zip(roots, texts, strict=True))
    ]
    body.append("initial begin")
    for row in range(ROWS):
        body += [f"{name} = {verilog.constant(rows[name][row], width)};" for name, width in INPUTS.items()]
        body += ["#1;", *(f'$display("%h", out_{at});' for at in range(len(roots)))]
    source = tmp_path / "terms.v"
    source.write_text("\n".join(["module terms;", *body, "end", "endmodule", ""]))
    subprocess.run(["iverilog", "-g2012", "-o", tmp_path / "terms.vvp", source], check=True)
    printed = subprocess.run(["vvp", "-n", tmp_path / "terms.vvp"], check=True, capture_output=True, text=True).stdout
    expected = terms.evaluate(roots, {name: np.array(each, np.uint64) for name, each in rows.items()}, ROWS)

    words = [int(word, 16) for word in printed.split()]
    assert words == [int(each[row]) for row in range(ROWS) for each in expected]
