"""Check what type checkers know about refemu: completeness of its public types, and the type of every shown call.

    python tools/known_types.py [--least 99]

pyright's `--verifytypes` gives the completeness, which must reach `--least`. Then pyright and mypy reveal every call in
the Python blocks of README, CONTRIBUTING and docs/, and in the examples of refemu's docstrings: none may be `Any` or
`Unknown`, except a planted call, which must be. Finally both check tests/test_types.py.
"""

import argparse
import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FACTS = "tests/test_types.py"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PACKAGES = [f"refemu.{name}" for name in ("arith", "formats", "units", "draw", "models", "golden", "testing")]
#: names that examples in docstrings use
PREAMBLE = """
from refemu import arith, draw, formats, golden, models, testing, units
ids: list[int] = [1, 2]
def my_encoder(values: object) -> object: ...
"""
PLANTED = {"planted": "from refemu import formats\nformats.INT4.no_such_method()\n"}
PYRIGHT = re.compile(r'Type of "(?P<call>.*)" is "(?P<type>.*)"', re.DOTALL)
MYPY = re.compile(r'^(?P<file>.*?):(?P<line>\d+): note: Revealed type is "(?P<type>.*)"$', re.MULTILINE)
ARRAY = re.compile(r"ndarray\[.*?dtype\[[^\[\]]*(\[[^\[\]]*\])*\]\]")


@dataclass(frozen=True)
class Call:
    """A call in a page, and the type that a checker has for it."""

    checker: str
    page: str
    text: str
    type: str

    @property
    def known(self) -> bool:
        """Whether an editor knows the type; NumPy uses Any for shape and dtype of an array."""
        return not re.search(r"\b(Any|Unknown)\b", ARRAY.sub("ndarray", self.type))


class Reveal(ast.NodeTransformer):
    """Wrap every call `f(x)` of refemu in `reveal_type`."""

    def __init__(self, others: set[str]) -> None:
        """others: names of the page that are not refemu's, whose types do not count."""
        self.others = others

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Wrap the call after its arguments."""
        self.generic_visit(node)
        root: ast.AST = node.func
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        foreign = isinstance(root, ast.Name) and root.id in self.others
        return node if foreign else ast.Call(ast.Name("reveal_type", ast.Load()), [node], [])


def pages() -> dict[str, str]:
    """The Python of every page, its blocks one after the other, and of every docstring with an example."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = {str(path.relative_to(ROOT)): "\n".join(BLOCK.findall(path.read_text())) for path in paths}
    examples = {name: example(text) for name, text in docstrings()}
    return blocks | {name: PREAMBLE + text for name, text in examples.items() if text}


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the docstrings of refemu's packages and of the functions, classes and methods that these export."""
    for package in map(importlib.import_module, PACKAGES):
        yield package.__name__, package.__doc__ or ""
        for name in getattr(package, "__all__", ()):
            exported = getattr(package, name)
            members = vars(exported) if inspect.isclass(exported) else {}
            for place, each in {"": exported, **members}.items():
                if inspect.isclass(each) or inspect.isroutine(each):
                    yield f"{package.__name__}.{name}.{place}".rstrip("."), inspect.getdoc(each) or ""


def example(docstring: str) -> str:
    """The paragraphs of a docstring that are Python with a call, an import or a function."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    return "\n".join(filter(is_code, map(inspect.cleandoc, paragraphs)))


def is_code(paragraph: str) -> bool:
    """Whether a paragraph is Python, not English."""
    try:
        nodes = list(ast.walk(ast.parse(paragraph)))
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Call | ast.Import | ast.ImportFrom | ast.FunctionDef) for node in nodes)


def revealing(source: str) -> str:
    """`source` with every call of refemu in `reveal_type`."""
    tree = ast.parse(source)
    return ast.unparse(ast.fix_missing_locations(Reveal(others(tree)).visit(tree)))


def others(tree: ast.Module) -> set[str]:
    """Names that a page imports from elsewhere, its own functions, and `super`, which loses its type when wrapped."""
    names = {"super"} | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {
                (name.asname or name.name).split(".")[0]
                for name in node.names
                if not (module or name.name).startswith("refemu")
            }
    return names


def calls(sources: dict[str, str]) -> list[Call]:
    """Every call of the sources with its type according to pyright and mypy."""
    revealed = [(page, revealing(source)) for page, source in sources.items()]
    with tempfile.TemporaryDirectory() as folder:
        for number, (_, source) in enumerate(revealed):
            Path(folder, f"page{number}.py").write_text(source)
        return [*by_pyright(folder, revealed), *by_mypy(folder, revealed)]


def by_pyright(folder: str, revealed: Sequence[tuple[str, str]]) -> Iterator[Call]:
    """Yield the calls of the files `page0.py`, ... as pyright reveals them."""
    for message in json.loads(pyright("--outputjson", folder))["generalDiagnostics"]:
        if shown := PYRIGHT.fullmatch(message["message"]):
            text = shown["call"].replace("reveal_type", "")
            page, _ = revealed[number_of(message["file"])]
            yield Call("pyright", page, text, shown["type"])


def by_mypy(folder: str, revealed: Sequence[tuple[str, str]]) -> Iterator[Call]:
    """Yield the calls of the files `page0.py`, ... as mypy reveals them."""
    files = [str(path) for path in sorted(Path(folder).iterdir())]
    for shown in MYPY.finditer(run("mypy", "--check-untyped-defs", "--hide-error-context", *files)):
        page, source = revealed[number_of(shown["file"])]  # mypy caches the folder of an earlier run
        line = source.splitlines()[int(shown["line"]) - 1]
        yield Call("mypy", page, line.strip().replace("reveal_type", ""), shown["type"])


def number_of(file: str) -> int:
    """3 for `page3.py`."""
    return int(Path(file).stem.removeprefix("page"))


def score() -> float:
    """Percentage of the public symbols whose type is known."""
    answer = json.loads(pyright("--verifytypes", "refemu", "--ignoreexternal", "--outputjson"))
    return 100 * float(answer["typeCompleteness"]["completenessScore"])


def wrong_facts() -> list[str]:
    """Errors of both checkers about tests/test_types.py."""
    said = run("mypy", FACTS).splitlines() + pyright(FACTS).splitlines()
    return [line for line in said if ": error:" in line or " - error:" in line]


def pyright(*arguments: str) -> str:
    """Output of pyright, with this Python and this tree."""
    return run("pyright", "--pythonpath", sys.executable, *arguments)


def run(module: str, *arguments: str) -> str:
    """The output of a checker."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", module, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if answer.returncode not in (0, 1):  # 1: the checker found errors
        sys.exit(f"{module} did not run: {answer.stderr or answer.stdout}")
    return answer.stdout


def complaints(least: float, reached: float, shown: Iterable[Call]) -> Iterator[str]:
    """Yield errors: the score, a call of unknown type, a checker that misses the planted one."""
    if reached < least:
        yield f"{least} % of the public symbols must have a known type"
    unknown = [call for call in shown if not call.known]
    for checker in ("pyright", "mypy"):
        if not any(call.checker == checker and call.page == "planted" for call in unknown):
            yield f"{checker} does not report the planted call of unknown type"
    for call in unknown:
        if call.page != "planted":
            yield f"{call.page}: {call.text} is {call.type} ({call.checker})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--least", type=float, default=99, help="required completeness in percent")
    least = parser.parse_args().least
    reached, shown = score(), calls(pages() | PLANTED)
    wrong = [*complaints(least, reached, shown), *wrong_facts()]
    count = sum(call.checker == "pyright" and call.page != "planted" for call in shown)
    print(
        f"types: {reached:.1f} % of the public symbols are known; {count} calls in README, docs and docstrings checked"
    )
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
