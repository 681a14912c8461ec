"""tools/walk.py counts what a command meets of the package, and names the calls that its sources do not show."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "walk.py"
SOURCES = {
    "__init__.py": "",
    "__main__.py": """
import sys
from refemu.calls import start

start(sys.argv[1:])
""",
    "calls.py": """
import importlib
import operator
import threading

from refemu import names
from refemu.names import Made, at_import, plain as renamed

def start(words):
    print(words)
    plainly()
    blindly(names.plain)
    hidden()
    thread = threading.Thread(target=threaded)
    thread.start()
    thread.join()

def plainly():
    renamed()
    names.plain()
    len(Made())
    [names.plain() for _ in range(2)]
    list(map(names.mapped, range(2)))
    for _ in names.numbers():
        inner()

def inner():
    pass

def blindly(function):
    function()

def hidden():
    getattr(importlib.import_module("refemu.strings"), "by_" + "string")()
    kind = operator.attrgetter("Made")(names)
    kind()
    names.proxy.anything

def threaded():
    names.mapped(0)
""",
    "names.py": """
class Made:
    def __init__(self):
        self.size = 0

    def __len__(self):
        return deepest()

class Proxy:
    def __getattr__(self, name):
        return None

proxy = Proxy()

def deepest():
    return 0

def at_import():
    return 0

def plain():
    pass

def mapped(number):
    pass

def numbers():
    yield deepest()

ZERO = at_import()
""",
    "strings.py": """
def by_string():
    pass
""",
}
BLIND = [
    "calls.py:blindly -> names.py:plain",
    "calls.py:hidden -> names.py:Made.__init__",
    "calls.py:hidden -> names.py:Proxy.__getattr__",
    "calls.py:hidden -> strings.py:by_string",
]
MET = [
    *(f"calls.py:{name}" for name in ("blindly", "hidden", "inner", "plainly", "start", "threaded")),
    *(f"names.py:{name}" for name in ("Made.__init__", "Made.__len__", "Proxy.__getattr__", "deepest", "mapped")),
    *(f"names.py:{name}" for name in ("numbers", "plain")),
    "strings.py:by_string",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a package `refemu` of five files."""
    for name, text in SOURCES.items():
        (tmp_path / "refemu" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "refemu" / name).write_text(text)
    return tmp_path


def walk(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *map(str, words)], capture_output=True, text=True, check=True)


def report(tree: Path) -> dict[str, Any]:
    return json.loads(walk("--tree", tree, "--json", "--", "generate", "--seed", 1).stdout)


def test_every_function_that_runs_after_imports_is_met(tree: Path) -> None:
    """In threads too; no comprehension, and nothing that only an import runs."""
    met = report(tree)

    assert met["met"] == MET
    assert (met["functions"], met["files"], met["depth"]) == (len(MET), 3, 4)


def test_indirect_calls_make_a_test_blind(tree: Path) -> None:
    met = report(tree)

    assert met["blind"] == BLIND
    assert met["hops"] == 11


def test_a_mention_of_the_name_is_sight(tree: Path) -> None:
    calls = tree / "refemu" / "calls.py"
    calls.write_text(calls.read_text().replace('"by_" + "string")', '"by_" + "string", strings.by_string)'))
    calls.write_text(calls.read_text().replace("import operator", "import operator\nfrom refemu import strings"))

    assert report(tree)["blind"] == BLIND[:-1]


def test_the_report_in_words(tree: Path) -> None:
    done = walk("--tree", tree, "--", "generate", "--seed", 1)
    numbers = f"functions {len(MET)}, files 3, depth 4, hops 11, blind 4"

    assert done.stdout.splitlines() == [numbers, *(f"  {hop}" for hop in BLIND)]
    assert done.stderr == "['generate', '--seed', '1']\n"  # what the command printed
