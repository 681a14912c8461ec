"""What the README and the docs show runs as shown."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from refemu.cli.arguments import parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PLAIN = [block for block in BLOCKS if "smollm2" not in block]


def commands() -> list[str]:
    """Every `refemu ...` line of a code block, comments dropped."""
    blocks = [block for page in PAGES for block in re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("refemu ")]
    assert lines
    return [line.split(" #")[0].strip() for line in lines]


@pytest.mark.parametrize("line", commands())
def test_command_is_understood(line: str) -> None:
    assert parser().parse_args(shlex.split(line)[1:]).module


@pytest.mark.parametrize("block", PLAIN, ids=range(len(PLAIN)))
def test_python_block_runs(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {})


def test_the_shown_values_are_the_real_ones() -> None:
    names: dict[str, Any] = {}
    for block in PLAIN:
        exec(compile(block, "README.md", "exec"), names)

    assert names["t"].pack() == b"\x85\xd5"
    assert names["t"].decode().tolist() == [48, 0, 5, -3]
    assert names["state"].acc == 240
    assert names["mac"].state == names["before"]


@pytest.mark.model
def test_the_model_block_runs(smollm2: Any) -> None:
    (block,) = [block for block in BLOCKS if "smollm2" in block]
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)

    assert names["run"].logits.shape[1] == 49_152
