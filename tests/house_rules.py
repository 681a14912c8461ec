"""Rules of the house over sources, as functions of text: what a module imports, and what its docstrings describe."""

import ast
import re
from collections.abc import Iterator

from tests.syntax_rules import nodes

MODULE = re.compile(r"refemu(\.[a-z_0-9]+)+(:[A-Za-z_0-9]+)?")
#: `name: ...`, `name (shape): ...` or `a, b: ...` where a sentence or a line begins
NAME, AND = "[a-z_][a-z0-9_]*", "(?:, and |, | and )"
DESCRIBED = re.compile(rf"(?:^|(?<=[.;)] ))({NAME}(?:{AND}{NAME})*)(?: \([^()]*\))?: ", re.MULTILINE)
#: participles and pronouns, which say nothing of what a value is
VAGUE = {"found", "given", "made", "told", "one", "own", "led"}
#: words that may stand so beside parameters
DTYPES = {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}


def imports(source: str) -> set[str]:
    """Every module that a source imports, at any depth, and every module of refemu that one of its strings names."""
    names = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            names.add(node.value.partition(":")[0])
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            names |= {named[0] for named in re.finditer(r"^refemu\.[a-z_0-9.]+", str(node.values[0].value))}
    return names


def layers(source: str) -> set[str]:
    """The folders of refemu that a source imports from."""
    return {name.split(".")[1] for name in imports(source) if name.startswith("refemu.")}


def undescribed(source: str) -> Iterator[str]:
    """Yield `line function: names` where a docstring describes parameters that the function does not have."""
    for node in nodes(source):
        if not isinstance(node, ast.FunctionDef):
            continue
        arguments = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        text = ast.get_docstring(node) or ""
        joined = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # a sentence may begin at the end of a line
        wrong: set[str] = set()
        for found in (*DESCRIBED.finditer(text), *DESCRIBED.finditer(joined)):
            wrong |= set(re.split(AND, found[1])) - arguments - DTYPES
        if wrong:
            yield f"{node.lineno} {node.name}: {', '.join(sorted(wrong))}"


def vague(source: str) -> Iterator[str]:
    """Yield `line function: name` where a parameter or another local name is one of VAGUE."""
    for function in nodes(source):
        if isinstance(function, ast.FunctionDef):
            names = {node.arg: node.lineno for node in ast.walk(function) if isinstance(node, ast.arg)}
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names.setdefault(node.id, node.lineno)
            yield from (f"{names[name]} {function.name}: {name}" for name in sorted(VAGUE & set(names)))
