"""Rules of public names: numpydoc docstrings that agree with signatures, citations, types.

Public is `__all__` of refemu's packages, of the modules that `refemu.arith` names, of modules for authors of units, and
of units.
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

PACKAGES = ("arith", "formats", "units", "draw", "models", "studies", "golden", "testing")
FOR_AUTHORS = ("refemu.arith.jit", "refemu.units.stimuli")  #: modules for authors of units
#: functions that reject arguments, by prefix of the name
CHECKED = re.compile("require|admit|accept|lookup|reading|_admitted|_checked")
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) [^\]]+\]")
OF_PAPER = re.compile(r"refemu\.(formats|units)\.(olive|kllm|harmonia|leankv)\b")
OF_UNIT = re.compile(r"refemu\.units\b")
ARRAY = "ndarray|ArrayLike"  #: in annotations
DERIVED = {"UNIT", "State", "Result", "run"}  #: names of a unit derived from its class, with their descriptions


class Public(NamedTuple):
    """A public name, and the module and statement that define it."""

    name: str
    module: Module
    node: ast.stmt


@functools.lru_cache(1)  # shared by all rules
def packages(house: House) -> list[Module]:
    """Modules that export public names."""
    names = [*(f"refemu.{name}" for name in PACKAGES), *FOR_AUTHORS]
    if arith := house.front("refemu.arith"):
        places = [house.definition(arith, name) for name in arith.exported]
        names += [place[0].name for place in places if place and place[1] is None]
    if units := house.front("refemu.units"):
        blocks = ast.literal_eval(getattr(units.defined.get("_BLOCKS"), "value", ast.Dict([], [])))
        names += [f"refemu.units.{paper}.{name}" for paper, names in blocks.items() for name in names.split()]
    return [front for name in names if (front := house.front(name))]


@functools.lru_cache(1)
def public(house: House) -> list[Public]:
    """Every public function, class and value."""
    places = [(name, house.definition(front, name)) for front in packages(house) for name in exported(house, front)]
    return [Public(name, place[0], place[1]) for name, place in places if place and place[1]]


def exported(house: House, module: Module) -> list[str]:
    """`__all__` of a module, or of the module it is imported from."""
    front = house.front(module.imported.get("__all__", ("", ""))[0])
    return exported(house, front) if front else module.exported


@rule("write numpydoc sections as CONTRIBUTING says")
def numpydoc(house: House) -> Iterator[Place]:
    """Public functions and methods have numpydoc sections that fit their signatures; fields and values, comments."""
    for front in packages(house):
        if not exported(house, front):
            yield front.path, 1, "no __all__"
    for name, module, node in public(house):
        if isinstance(node, ast.FunctionDef):
            texts = of_function(name, node, [node], bool(OF_UNIT.match(module.name)))
            yield from ((module.path, node.lineno, text) for text in texts)
        elif isinstance(node, ast.ClassDef):
            yield from ((module.path, line, text) for line, text in of_class(house, module, node))
        elif name not in DERIVED or "UNIT" not in module.defined:
            text = comment(module.lines, node.lineno, node.end_lineno or 0)
            if not text or ASKING.match(text):
                yield module.path, node.lineno, f"{name}: needs a comment that says what it is"


def of_function(
    name: str, function: ast.FunctionDef, documented: Sequence[ast.FunctionDef], in_unit: bool = False
) -> Iterator[str]:
    """Yield errors in the docstring of a function. documented: it, and functions whose docstring it inherits.

    in_unit: a text without sections suffices if it names each array, whose type does not say its shape.
    """
    text = next(filter(None, map(ast.get_docstring, documented)), "")
    if in_unit and text and "\n---" not in text:
        arrays = [each.arg for each in function.args.args if re.search(ARRAY, ast.unparse(each.annotation or each))]
        yield from (f"{name}: {each} needs its shape" for each in arrays if not re.search(rf"\b{each}\b", text))
        return
    parsed = docstring_parser.parse(text, docstring_parser.DocstringStyle.NUMPYDOC)
    if not parsed.short_description or ASKING.match(parsed.short_description):
        yield f"{name}: its first line must say what it does"
    parameters = names_of(function)
    parameters = parameters[parameters[:1] in (["self"], ["cls"]) and "." in name :]
    described = [part for each in parsed.params for part in each.arg_name.split(", ")]
    if parameters != described:
        yield f"{name}: parameters {parameters}, described {described}"
    for each in (*parsed.params, *parsed.many_returns):
        if not (each.type_name and each.description):
            yield f"{name}: {' '.join(each.args)} without type or description"
    if ast.unparse(function.returns or function.args) != "None" and not parsed.many_returns:
        yield f"{name}: no Returns"
    inner = list(ast.walk(function))
    calls = [last_of(node) for node in inner if isinstance(node, ast.Call)]
    if (any(map(CHECKED.match, calls)) or any(isinstance(node, ast.Raise) for node in inner)) and not parsed.raises:
        yield f"{name}: no Raises"


def names_of(function: ast.FunctionDef) -> list[str]:
    """Parameters of a function, with stars."""
    a = function.args
    several = [f"*{a.vararg.arg}"] if a.vararg else []
    named = [f"**{a.kwarg.arg}"] if a.kwarg else []
    return [*(each.arg for each in a.posonlyargs + a.args), *several, *(each.arg for each in a.kwonlyargs), *named]


def of_class(house: House, module: Module, node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield errors in the docstrings of a class, its constructor, fields, properties and methods."""
    first = ast.get_docstring(node) or ""
    if not first or ASKING.match(first):
        yield node.lineno, f"{node.name}: its first line must say what it is"
    known = [each.node for each in public(house)]
    for place, owner in ancestors(house, module, node):
        bases = [base for _, base in ancestors(house, place, owner)]
        declared = any(base.name == "Declared" for base in bases)
        for method in methods_of(owner) if owner is node or owner not in known else ():
            below = [each for base in bases[1:] for each in methods_of(base) if each.name == method.name]
            texts = of_method(f"{node.name}.{method.name}", method, below, declared, bool(OF_UNIT.match(place.name)))
            yield from ((method.lineno if place is module else node.lineno, text) for text in texts)
    record = {"dataclass", "parameters", "NamedTuple"} & set(map(last_of, [*node.decorator_list, *node.bases]))
    for each in node.body if record and node.name != "Result" else ():  # fields of a unit's Result are its ports
        field = isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation)
        if field and not comment(module.lines, each.lineno, each.end_lineno or 0):
            yield each.lineno, f"{node.name}.{last_of(each.target)}: no comment"


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Public methods of a class and its constructor."""
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    return [each for each in functions if each.name[0] != "_" or each.name == "__init__"]


def of_method(
    name: str, method: ast.FunctionDef, below: list[ast.FunctionDef], declared: bool, in_unit: bool
) -> Iterator[str]:
    """Yield errors in a method. below: methods it overrides; declared: only variants and composed units call it.

    One line is enough if an overridden method documents the same parameters. in_unit: as for `of_function`.
    """
    decorators = set(map(last_of, method.decorator_list))
    documented = [each for each in (method, *below) if ast.get_docstring(each)]
    if decorators & {"setter", "overload", "constant", "cached_property"}:
        return
    if declared or "property" in decorators:
        yield from () if documented else (f"{name}: no docstring",)
        return
    same = [each for each in below if names_of(each) == names_of(method)]
    one_line = "\n" not in (ast.get_docstring(method) or "\n")
    if method.name == "__init__" or not one_line or all(any(of_function(name, each, [each])) for each in same):
        yield from of_function(name, method, documented if method.name != "__init__" else [method], in_unit)


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
    """Public functions of a paper cite it in their References."""
    for name, module, node in public(house):
        if isinstance(node, ast.FunctionDef) and OF_PAPER.match(module.name):
            text = ast.get_docstring(node) or ""
            if not CITATION.search(text.partition("References\n----------")[2] if "\n---" in text else text):
                yield module.path, node.lineno, f"{name}: no References to the paper"


@rule("give it its type")
def open_type(house: House) -> Iterator[Place]:
    """No parameter or result of a public function or method is Any; drawings take the states of any unit."""
    for name, module, node in public(house):
        functions = methods_of(node) if isinstance(node, ast.ClassDef) else [node]
        for each in functions if layer(module.name) != "draw" else ():
            arguments = [part for part in ast.walk(getattr(each, "args", each)) if isinstance(part, ast.arg)]
            types = [*(part.annotation for part in arguments), getattr(each, "returns", None)]
            if "Any" in {ast.unparse(part).strip("'") for part in types if part}:
                yield module.path, each.lineno, f"{name if each is node else f'{name}.{each.name}'} says Any"
