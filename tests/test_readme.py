"""What the README and the docs show runs as shown."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from refemu import golden
from refemu.cli.arguments import parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README + CONCEPTS, re.DOTALL)
#: of the commands in docs/which-tool.md
PLACEHOLDERS = {"UNIT": "ovp_decoder", "MODEL": "tiny", "SCHEME": "fp16", "NAME": "olive", "N": "100"}
PLAIN = [block for block in BLOCKS if "smollm2" not in block]
DOCS = [
    pytest.param(page, block, id=f"{page.stem}-{at}")
    for page in PAGES[1:]
    if page.stem != "concepts"
    for at, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def commands() -> list[str]:
    """Every `refemu ...` line of a code block, comments dropped."""
    fences = re.compile(r"^( *)```(.*?)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
    blocks = [block for page in PAGES for _, language, block in fences.findall(page.read_text()) if not language]
    joined = [re.sub(r"\\\n *", "", block) for block in blocks]
    lines = [line.strip() for block in joined for line in block.splitlines() if line.strip().startswith("refemu ")]
    assert lines
    return [line.split(" #")[0].strip() for line in lines]


@pytest.mark.parametrize("line", commands())
def test_command_is_understood(line: str) -> None:
    assert parser().parse_args(shlex.split(line)[1:]).module


def test_commands_of_the_tool_table_parse() -> None:
    lines = re.findall(r"`(refemu [^`]+)`", (ROOT / "docs" / "which-tool.md").read_text().split("\n## ", 1)[1])
    assert len(lines) > 15
    for line in lines:
        words = [PLACEHOLDERS.get(word, word) for word in line.split()[1:]]
        assert parser().parse_args(words).module, line


@pytest.mark.parametrize("block", PLAIN, ids=range(len(PLAIN)))
def test_python_block_runs(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize(("page", "block"), DOCS)
def test_python_block_of_docs_runs(
    page: Path, block: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the set that they read."""
    folder = tmp_path_factory.mktemp("docs")
    if "vec/ovp_decoder-int4" in block:
        golden.generate(folder / "vec", units=["ovp_decoder:int4"], kinds=["paper"])
    monkeypatch.chdir(folder)
    exec(compile(block, page.name, "exec"), {"__name__": "docs"})


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    """Two screens at most as a browser wraps its words and code; files that are there."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    files = [target for target in targets if "://" not in target]
    assert len(files) > 20 and [name for name in files if not (ROOT / name).exists()] == []
    assert README.count("https://arxiv.org/abs/") == 4
    assert len(README.split()) < 600


def test_the_shown_values_are_the_real_ones() -> None:
    names: dict[str, Any] = {}
    for block in PLAIN:
        exec(compile(block, "README.md", "exec"), names)

    assert names["t"].pack() == b"\x85\xd5"
    assert names["t"].decode().tolist() == [48, 0, 5, -3]
    assert names["state"].acc == 240
    assert names["mac"].state == names["before"]


@pytest.mark.parametrize("name", ["tiny", pytest.param("smollm2-135m", marks=[pytest.mark.model, pytest.mark.slow])])
def test_the_model_block_runs(name: str, request: pytest.FixtureRequest) -> None:
    """As shown, and with the shipped model in place of the real one."""
    if name != "tiny":
        request.getfixturevalue("smollm2")
    (block,) = [block for block in BLOCKS if "smollm2" in block]
    assert block.count('load("smollm2-135m")') == 1
    names: dict[str, Any] = {}
    exec(compile(block.replace("smollm2-135m", name), "README.md", "exec"), names)

    assert names["run"].logits.shape[1] == names["model"].config.vocab


def test_the_way_to_a_decision_is_as_written() -> None:
    """CONTRIBUTING's three steps to the line that takes D-olive-18."""
    steps = (ROOT / "CONTRIBUTING.md").read_text().split("such as D-olive-18:\n\n")[1].split("\n\n")[0]
    module = re.search(r"`(refemu/units/olive/[\w/]+\.py)`", steps)
    assert module and len(re.findall(r"^\d\. ", steps, re.MULTILINE)) == 3 and "docs/decisions.md" in README
    source = (ROOT / module[1]).read_text()
    function = re.search(r"`OvpDecoder\.(\w+)`", steps)

    assert "### D-olive-18" in (ROOT / "docs" / "decisions-olive.md").read_text()
    assert function and re.search(rf'@decides\("D-olive-18"\)\n    def {function[1]}\(', source)


def test_installation_page_lists_every_extra_that_refemu_asks_for() -> None:
    asked = set[str]()
    for path in (ROOT / "refemu").rglob("*.py"):
        for extras in re.findall(r"refemu\[([a-z,-]+)\]", path.read_text()):
            asked.update(extras.split(","))

    listed = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE))
    assert {"formal"} <= asked <= listed
