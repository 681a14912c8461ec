"""The README's table of costs: multiples of the rival's speed, gigabytes, and what was missed."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import history, model_costs
from benchmarks.pairs import First, Row, row
from tests.benchmarks.factory import CONTEXT

FIRST = First(0.0, 0.0, None)
ROWS = [
    row("PERF-M1", "smollm2-135m fp16 prefill 256", "BLAS", [(1.0, 2.0)], FIRST, 0.25, True),
    row("PERF-M2", "smollm2-135m fp16 decode 8 tokens", "BLAS", [(1.0, 0.5)], FIRST, 1.1, True),
    replace(
        row("MEM-2048", "smollm2-135m fp16 2048 tokens, all logits: 1.36 GB", "3 GB", [(3.0, 1.36)], FIRST, 1.0, True),
        peak_mb=1360.0,
    ),
    row("PERF-M1", "smollm2-135m kllm-a4 prefill 64", "BLAS", [(1.0, 20.0)], FIRST, 0.07, True),
]


def test_a_line_per_scheme() -> None:
    lines = model_costs.table(ROWS).splitlines()

    assert lines[2:] == [
        "| `fp16` | 0.50 x | 2.00 x |  | 1.4 GB |",
        "| `kllm-a4` | 0.05 x (64 tokens), missed |  |  |  |",
    ]
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|")


def test_the_last_measurement_goes_between_the_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "rows.jsonl", tmp_path / "README.md"
    slow: Row = replace(ROWS[0], ratio=0.1)
    history.append(file, CONTEXT, [slow.record(), ROWS[0].record()])
    page.write_text(f"above\n{model_costs.BEGIN}\nold\n{model_costs.END}\nbelow\n", "utf-8")

    assert model_costs.main([str(file), str(page)]) == model_costs.main([str(file)]) == 0
    printed = capsys.readouterr().out
    assert page.read_text("utf-8") == f"above\n{model_costs.BEGIN}\n{printed}{model_costs.END}\nbelow\n"
    assert "| `fp16` | 0.50 x |" in printed and "0.10 x" not in printed


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    file, page = tmp_path / "rows.jsonl", tmp_path / "README.md"
    history.append(file, CONTEXT, [ROWS[0].record()])
    page.write_text("nothing", "utf-8")

    assert model_costs.main([str(file), str(page)]) == 2
    assert page.read_text("utf-8") == "nothing"
