"""Rules of public names: numpydoc docstrings that agree with signatures, citations, types.

Public is `__all__` of refemu's packages, of the modules that `refemu.arith` names, of those for authors, and of units.
"""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import docstring_parser

from tools.rules.house import House, Module, Place, last_of, root_of, rule
from tools.rules.imports import layer
from tools.rules.names import ASKING

PACKAGES = ("arith", "formats", "units", "draw", "models", "golden", "testing")
FOR_AUTHORS = ("refemu.arith.jit", "refemu.units.stimuli")  #: modules for authors of units, imported by who needs them
#: what refuses its arguments, by the beginning of its name
CHECKED = re.compile("require|admit|accept|lookup|reading|_admitted|_checked")
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) [^\]]+\]")
OF_PAPER = re.compile(r"refemu\.(formats|units)\.(olive|kllm|harmonia|leankv)\b")
DERIVED = {"UNIT", "State", "run"}  #: names of a unit that follow from its class, with their descriptions


class Public(NamedTuple):
    """A public name, and the module and statement that define it."""

    name: str
    module: Module
    node: ast.stmt


@functools.lru_cache(1)  # for all rules
def public(house: House) -> list[Public]:
    """Every public function, class and value."""
    names = [f"refemu.{name}" for name in PACKAGES]
    if arith := house.front("refemu.arith"):
        places = [house.definition(arith, name) for name in arith.exported]
        names += [place[0].name for place in places if place and place[1] is None]
    names += FOR_AUTHORS
    if units := house.front("refemu.units"):
        papers = ast.literal_eval(getattr(units.defined.get("PAPERS"), "value", ast.Dict([], [])))
        names += [f"refemu.units.{paper}.{name}" for name, paper in papers.items()]
    fronts = [front for name in names if (front := house.front(name))]
    places = [(name, house.definition(front, name)) for front in fronts for name in _exported(house, front)]
    return [Public(name, place[0], place[1]) for name, place in places if place and place[1]]


def _exported(house: House, module: Module) -> list[str]:
    """`__all__` of a module, or of the one that it takes it from."""
    front = house.front(module.imported.get("__all__", ("", ""))[0])
    return _exported(house, front) if front else module.exported


@rule("write numpydoc sections as CONTRIBUTING says")
def numpydoc(house: House) -> Iterator[Place]:
    """Public functions and methods have numpydoc sections that fit their signatures; fields and values, comments."""
    for each in public(house):
        if isinstance(each.node, ast.FunctionDef):
            problems = [(each.node.lineno, text) for text in of_function(each.name, each.node, [each.node])]
        elif isinstance(each.node, ast.ClassDef):
            problems = list(of_class(house, each.module, each.node))
        else:
            text = comment(each.module.lines, each.node.lineno, each.node.end_lineno or 0)
            unsaid = not text or ASKING.match(text)
            problems = [(each.node.lineno, f"{each.name}: no comment says what it is")] if unsaid else []
            problems = [] if each.name in DERIVED and "UNIT" in each.module.defined else problems
        yield from ((each.module.path, line, text) for line, text in problems)


def of_function(name: str, function: ast.FunctionDef, documented: Sequence[ast.FunctionDef]) -> Iterator[str]:
    """Yield what is wrong in the docstring of a function. documented: it, and those whose docstring it inherits."""
    text = next(filter(None, map(ast.get_docstring, documented)), "")
    parsed = docstring_parser.parse(text, docstring_parser.DocstringStyle.NUMPYDOC)
    if not parsed.short_description or ASKING.match(parsed.short_description):
        yield f"{name}: no first line says what it does"
    parameters = names_of(function)
    parameters = parameters[parameters[:1] in (["self"], ["cls"]) and "." in name :]
    described = [part for each in parsed.params for part in each.arg_name.split(", ")]
    if parameters != described:
        yield f"{name}: parameters {parameters}, described {described}"
    for each in parsed.params:
        if not (each.type_name and each.description):
            yield f"{name}: parameter {each.arg_name} without type or description"
    if not (isinstance(function.returns, ast.Constant) and function.returns.value is None) and not parsed.many_returns:
        yield f"{name}: no Returns"
    for returns in parsed.many_returns:
        if not (returns.type_name and returns.description):
            yield f"{name}: Returns without type or description"
    calls = [last_of(node) for node in ast.walk(function) if isinstance(node, ast.Call)]
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(function)) or any(map(CHECKED.match, calls))
    if raises and not parsed.raises:
        yield f"{name}: no Raises"


def names_of(function: ast.FunctionDef) -> list[str]:
    """Parameters of a function, with their stars."""
    a = function.args
    several = [f"*{a.vararg.arg}"] if a.vararg else []
    named = [f"**{a.kwarg.arg}"] if a.kwarg else []
    return [*(each.arg for each in a.posonlyargs + a.args), *several, *(each.arg for each in a.kwonlyargs), *named]


def of_class(house: House, module: Module, node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield what is wrong in the docstrings of a class, its constructor, fields, properties and methods."""
    first = (ast.get_docstring(node) or "").split("\n\n")[0]
    if not first or ASKING.match(first):
        yield node.lineno, f"{node.name}: no first line says what it is"
    above = ancestors(house, module, node)
    known = {(each.module.name, id(each.node)) for each in public(house)}
    for at, (place, owner) in enumerate(above):
        if at and (place.name, id(owner)) in known:
            continue
        declared = any(base.name == "Declared" for _, base in ancestors(house, place, owner))
        for method in owner.body:
            if isinstance(method, ast.FunctionDef) and (method.name[0] != "_" or method.name == "__init__"):
                same = [_method(base, method.name) for _, base in ancestors(house, place, owner)[1:]]
                line = method.lineno if place is module else node.lineno
                texts = of_method(f"{node.name}.{method.name}", method, list(filter(None, same)), declared)
                yield from ((line, text) for text in texts)
    decorators = {last_of(each) for each in node.decorator_list}
    record = {"dataclass", "parameters"} & decorators or "NamedTuple" in map(last_of, node.bases)
    for name, line in uncommented(node, module.lines) if record else ():
        yield line, f"{node.name}.{name}: no comment"


def of_method(name: str, method: ast.FunctionDef, below: list[ast.FunctionDef], declared: bool) -> Iterator[str]:
    """Yield what is wrong in a method. below: those it overrides; declared: only variants and composed units call it.

    One line is enough where a method that it overrides documents the same parameters.
    """
    decorators = {last_of(each) for each in method.decorator_list}
    documented = [each for each in (method, *below) if ast.get_docstring(each)]
    if decorators & {"setter", "overload", "constant", "cached_property"}:
        return
    if declared or "property" in decorators:
        if not documented:
            yield f"{name}: no docstring"
        return
    same = [each for each in below if names_of(each) == names_of(method)]
    one_line = "\n" not in (ast.get_docstring(method) or "\n")
    if method.name == "__init__" or not one_line or all(any(of_function(name, each, [each])) for each in same):
        yield from of_function(name, method, documented if method.name != "__init__" else [method])


def ancestors(house: House, module: Module, node: ast.ClassDef) -> list[tuple[Module, ast.ClassDef]]:
    """A class and its bases in refemu, nearest first."""
    places = [(module, node)]
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        place = house.definition(module, root_of(base) or "")
        if place and place[1] is None and isinstance(base, ast.Attribute):
            place = house.definition(place[0], base.attr)
        if place and isinstance(place[1], ast.ClassDef):
            places += [each for each in ancestors(house, place[0], place[1]) if each not in places]
    return places


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def uncommented(body: ast.ClassDef, lines: list[str]) -> Iterator[tuple[str, int]]:
    """Yield fields of a record without a `#:` comment; those of a unit's Result are its ports."""
    for node in body.body if body.name != "Result" else ():
        field = isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
        if field and not comment(lines, node.lineno, node.end_lineno or node.lineno):
            yield last_of(node.target), node.lineno


def comment(lines: list[str], first: int, last: int) -> str:
    """The `#:` at the end of a statement, or the lines of `#:` above it."""
    for line in lines[first - 1 : last]:
        if "#: " in line:
            return line.partition("#: ")[2].strip()
    above: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#: "):
            break
        above.insert(0, line.partition("#: ")[2].strip())
    return " ".join(above)


@rule("cite it in References, [olive §4.2] say")
def reference(house: House) -> Iterator[Place]:
    """Public functions of a paper cite it in their References, modules of units in their docstring."""
    for each in public(house):
        if not OF_PAPER.match(each.module.name):
            continue
        if isinstance(each.node, ast.ClassDef):
            declared = any(base.name == "Declared" for _, base in ancestors(house, each.module, each.node))
            if declared and not CITATION.search(ast.get_docstring(each.module.tree) or ""):
                yield each.module.path, 1, f"{each.name}: its module does not cite the paper"
        if isinstance(each.node, ast.FunctionDef):
            text = ast.get_docstring(each.node) or ""
            if not CITATION.search(text.partition("References\n----------")[2]):
                yield each.module.path, each.node.lineno, f"{each.name}: no References to the paper"


@rule("give it its type")
def open_type(house: House) -> Iterator[Place]:
    """No parameter or result of a public function or method is Any; drawings take the states of any unit."""
    for each in public(house):
        if layer(each.module.name) == "draw":
            continue
        methods = each.node.body if isinstance(each.node, ast.ClassDef) else [each.node]
        for node in methods:
            if isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name == "__init__"):
                name = each.name if node is each.node else f"{each.name}.{node.name}"
                arguments = [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]
                types = [*(part.annotation for part in arguments), node.returns]
                texts = {ast.unparse(part).strip("'") for part in types if part}
                if "Any" in texts:
                    yield each.module.path, node.lineno, f"{name} says Any"
