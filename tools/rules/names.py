"""Rules of files and names: docstrings, names of variables, citations, size of folders, unused kernels."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.rules.bits import kernels
from tools.rules.house import House, Module, Place, last_of, module_rule, rule
from tools.rules.imports import kind_of, layer

#: a first word that makes a question
ASKING = re.compile(r"(What|Who|How|Where|When|Which|Why|Likewise)\b")
#: `name: ...`, `name (shape): ...` or `a, b: ...` at the start of a sentence or line
NAME, AND = "[a-z_][a-z0-9_]*", "(?:, and |, | and )"
DESCRIBED = re.compile(rf"(?:^|(?<=[.;)] ))({NAME}(?:{AND}{NAME})*)(?: \([^()]*\))?: ", re.MULTILINE)
#: words that may have that form next to parameters
DTYPES = {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
#: participles and pronouns, which do not describe a value
VAGUE = {"found", "given", "made", "told", "one", "own", "led"}
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) ")
PAPER = re.compile(r"\b(olive|kllm|harmonia|leankv)\b", re.IGNORECASE)
LARGEST = 30  #: most files of a folder
#: functions of a unit's module `cases`, which the fields of Unit describe
STIMULI = {"paper", "edge", "random", "exhaustive", "mark", "care", "closes"}


@module_rule("describe it in one line")
def docstring(module: Module) -> Iterator[tuple[int, str]]:
    """Modules, and their public functions and classes, have docstrings; a module's does not start with a question."""
    text = ast.get_docstring(module.tree) or ""
    if not text or ASKING.match(text):
        yield 1, f"first line of the module: {text.splitlines()[:1]}"
    for node in module.tree.body:
        described = "/cases" in module.path and getattr(node, "name", "") in STIMULI
        public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_" and not described
        if public and not ast.get_docstring(node) and "overload" not in map(last_of, node.decorator_list):
            yield node.lineno, f"{node.name} has no docstring"


@module_rule("name existing parameters")
def described(module: Module) -> Iterator[tuple[int, str]]:
    """In docstrings, sentences that begin with `name: ...` or `a, b (shape): ...` name parameters."""
    for node in module.of(ast.FunctionDef):
        arguments = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        text = ast.get_docstring(node) or ""
        joined = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # a sentence may start at the end of a line
        matches = (*DESCRIBED.finditer(text), *DESCRIBED.finditer(joined))
        wrong = {name for match in matches for name in re.split(AND, match[1])} - arguments - DTYPES
        if wrong:
            yield node.lineno, f"{node.name} has no parameter {', '.join(sorted(wrong))}"


@module_rule("use a noun of the field")
def vague_name(module: Module) -> Iterator[tuple[int, str]]:
    """No parameter or local variable has a name that describes nothing."""
    functions = [(node.lineno, node.end_lineno) for node in module.of(ast.FunctionDef, ast.Lambda)]
    for node in module.of(ast.arg, ast.Name):
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node.ctx, ast.Store) else ""
        if name in VAGUE and any(first <= node.lineno <= last for first, last in functions):
            yield node.lineno, f"name {name}"


@module_rule("cite it, [olive §4.2] say, or list the file in tools/rules/exceptions.py")
def citation(module: Module) -> Iterator[tuple[int, str]]:
    """Files of formats and units cite their paper in their docstring, unless they are part of a block."""
    kind = kind_of(module.name)
    text = module.text if kind else ast.get_docstring(module.tree) or ""
    block = layer(module.name) in ("formats", "units") and not module.path.endswith("__init__.py")
    if block and kind != "variants" and not CITATION.search(text):
        yield 1, "no citation of a paper"


@module_rule("move what only one paper needs to its format")
def paper_in_arith(module: Module) -> Iterator[tuple[int, str]]:
    """arith names no paper."""
    for number, line in enumerate(module.lines, 1):
        if layer(module.name) == "arith" and PAPER.search(line):
            yield number, "arith names a paper"


@module_rule("move it to a module")
def exports_only(module: Module) -> Iterator[tuple[int, str]]:
    """refemu/arith/__init__.py has a docstring, imports and `__all__`."""
    for node in module.tree.body if module.short == "arith/__init__.py" else ():
        public = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if not isinstance(node, ast.Expr | ast.ImportFrom) and not public:
            yield node.lineno, "a statement that is not an import"


@module_rule("start __post_init__ with plain_fields(self)")
def plain_fields(module: Module) -> Iterator[tuple[int, str]]:
    """Records under @parameters first convert their fields to plain Python values."""
    for node in module.of(ast.ClassDef):
        if any(ast.unparse(each).partition("(")[0] == "parameters" for each in node.decorator_list):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__post_init__"]
            if not methods or ast.unparse(methods[0].body[0]) != "plain_fields(self)":
                yield node.lineno, f"{node.name} stores its arguments unconverted"


@rule("split it by subject")
def folder(house: House) -> Iterator[Place]:
    """No folder of the package and its tests has more than 30 Python files."""
    paths = [
        PurePosixPath(path) for path in house.texts if path.startswith(("refemu/", "tests/")) and path[-3:] == ".py"
    ]
    for parent, count in Counter(path.parent for path in paths).items():
        if count > LARGEST:
            yield str(parent), 1, f"{count} files"


@rule("delete it")
def uncalled_kernel(house: House) -> Iterator[Place]:
    """Each kernel is called by name in a compiled module, or as an attribute."""
    compiled = [
        module
        for module in house.modules.values()
        if kind_of(module.name) in ("compiled", "kernels") or "_compiled" in module.path
    ]
    called = {node.id for module in compiled for node in module.of(ast.Name)}
    called |= {node.attr for module in house.modules.values() for node in module.of(ast.Attribute)}
    for module in compiled:
        yield from ((module.path, node.lineno, node.name) for node in kernels(module) if node.name not in called)
