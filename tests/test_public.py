"""Every public name has a numpydoc docstring that agrees with its signature."""

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import docstring_parser
import pytest

import refemu
from refemu import units
from refemu.arith.checks import require_int
from refemu.units.declared import Declared
from refemu.units.ports import Ports
from tools import api
from tools.api import Public

#: what refuses its arguments, by the beginning of its name
CHECKS = ("require", "admit", "accept", "lookup", "reading", "_admitted", "_checked")
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) [^\]]+\]")
#: a first word that asks instead of saying
ASKING = re.compile(r"(What|Who|How|Where|When|Which|Why|Likewise)\b")


def problems(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield what is wrong in the docstring of a function or method."""
    parsed = docstring_parser.parse(inspect.getdoc(function) or "", docstring_parser.DocstringStyle.NUMPYDOC)
    if not parsed.short_description or ASKING.match(parsed.short_description):
        yield f"{name}: no first line that says what it does: {parsed.short_description!r}"
    signature = inspect.signature(function)
    yield from parameter_problems(name, parsed, signature)
    if signature.return_annotation not in (None, "None") and not parsed.many_returns:
        yield f"{name}: no Returns"
    for returns in parsed.many_returns:
        if not (returns.type_name and returns.description):
            yield f"{name}: Returns without type or description"
    if refuses(function) and not parsed.raises:
        yield f"{name}: no Raises"


def parameter_problems(name: str, parsed: docstring_parser.Docstring, signature: inspect.Signature) -> Iterator[str]:
    """Yield parameters that are missing, unknown, out of order, or without type or description."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = [stars.get(each.kind, "") + each.name for each in signature.parameters.values()]
    parameters = parameters[parameters[:1] in (["self"], ["cls"]) and "." in name :]
    described = [part for each in parsed.params for part in each.arg_name.split(", ")]
    if parameters != described:
        yield f"{name}: parameters {parameters}, described {described}"
    for each in parsed.params:
        if not (each.type_name and each.description):
            yield f"{name}: parameter {each.arg_name} without type or description"


def refuses(function: Callable[..., Any]) -> bool:
    """Whether the body of a function raises, or calls a check that does."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError):
        return False
    calls = [node.func for node in ast.walk(body) if isinstance(node, ast.Call)]
    names = [getattr(call, "attr", getattr(call, "id", "")) for call in calls]
    return any(isinstance(node, ast.Raise) for node in ast.walk(body)) or any(
        map(str.startswith, names, [CHECKS] * len(names))
    )


def class_problems(each: Public) -> Iterator[str]:
    """Yield what is wrong in the docstrings of a class, its constructor, fields, properties and methods."""
    first = api.paragraph(each.value.__doc__ or "")
    if not first or ASKING.match(first):
        yield f"{each.name}: no first line that says what it is: {first!r}"
    for name, member, owner in members(each.value):
        function = getattr(member, "__func__", member)
        if isinstance(member, property) and name[0] != "_" and not inspect.getdoc(member):
            yield f"{each.name}.{name}: no docstring"
        if not inspect.isfunction(function) or not written(function, owner) or (name[0] == "_" and name != "__init__"):
            continue
        if issubclass(owner, Declared):  # only variants and composed units call them
            if not (inspect.getdoc(function) or "").strip():
                yield f"{each.name}.{name}: no docstring"
        else:
            yield from override_problems(f"{each.name}.{name}", function, each.value)
    yield from (f"{each.name}.{name}: no comment" for name in undescribed_fields(each))


def override_problems(name: str, function: Callable[..., Any], owner: type) -> Iterator[str]:
    """Yield what is wrong in a method; one line is enough where a base class documents the same parameters."""
    below = [vars(base).get(function.__name__) for base in owner.__mro__[1:]]
    bases = [base for base in below if inspect.isfunction(base) and base.__module__.startswith("refemu")]
    names = [*inspect.signature(function).parameters]
    same = [base for base in bases if [*inspect.signature(base).parameters] == names]
    one_line = "\n" not in (inspect.getdoc(function) or "\n")
    if function.__name__ == "__init__" or not one_line or all(any(problems(name, base)) for base in same):
        yield from problems(name, function)


def members(public: type) -> Iterator[tuple[str, Any, type]]:
    """Yield the members of a class, and of its bases in refemu that are not public themselves, with their class."""
    for owner in public.__mro__:
        if owner is public or (owner.__module__.startswith("refemu") and owner not in public_classes()):
            yield from ((name, member, owner) for name, member in vars(owner).items())


@functools.cache
def public_classes() -> set[type]:
    return {each.value for package in api.packages() for each in api.public(package) if inspect.isclass(each.value)}


def written(function: Callable[..., Any], owner: type) -> bool:
    """Whether a method stands in the source of its class: `dataclass` and `NamedTuple` make others."""
    return inspect.unwrap(function).__code__.co_filename == inspect.getsourcefile(owner)


def undescribed_fields(each: Public) -> list[str]:
    """Fields of a record that neither a `#:` comment nor a port of its unit describes."""
    if not (dataclasses.is_dataclass(each.value) or hasattr(each.value, "_fields")):
        return []
    fields = getattr(each.value, "__dataclass_fields__", {}).values()
    if any("meaning" in field.metadata for field in fields):  # made of a declared unit
        return [field.name for field in fields if not field.metadata["meaning"]]
    lines = inspect.getsource(each.module).splitlines()
    (body,) = [node for node in api.tree(each.module).body if getattr(node, "name", "") == each.value.__name__]
    assert isinstance(body, ast.ClassDef)
    return [name for name in uncommented(body, lines) if name not in port_names(each)]


def uncommented(body: ast.ClassDef, lines: list[str]) -> list[str]:
    """Fields of a class without a `#:` comment."""
    fields = [
        node for node in body.body if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
    ]
    return [
        node.target.id
        for node in fields
        if isinstance(node.target, ast.Name) and not api.comment(lines, node.lineno, node.end_lineno or node.lineno)
    ]


def port_names(each: Public) -> set[str]:
    """Names whose meaning a unit's descriptor says: ports, registers and counters."""
    if not hasattr(each.module, "UNIT"):
        return set()
    unit = each.module.UNIT
    ports: list[Ports] = [unit.ports(config) for config in unit.configs.values()]
    return {port.name for some in ports for port in some.all} | {*unit.counters}


def all_problems(each: Public) -> list[str]:
    """Everything that is wrong in the documentation of one public name."""
    if inspect.isclass(each.value):
        return list(class_problems(each)) + list(citation_problems(each))
    if inspect.isroutine(each.value):
        return list(problems(each.name, each.value)) + list(citation_problems(each))
    return (
        []
        if each.summary and not ASKING.match(each.summary)
        else [f"{each.name}: no comment that says what it is: {each.summary!r}"]
    )


def citation_problems(each: Public) -> Iterator[str]:
    """Yield a function or stepping class of a paper whose References do not cite it."""
    of_paper = re.match(r"refemu\.(formats|units)\.(olive|kllm|harmonia|leankv)\b", each.module.__name__)
    record = inspect.isclass(each.value) and (dataclasses.is_dataclass(each.value) or not hasattr(each.value, "step"))
    if not of_paper or record:
        return
    if isinstance(each.value, type) and issubclass(each.value, Declared):  # its module and its descriptor cite
        if not CITATION.search(each.module.__doc__ or ""):
            yield f"{each.name}: its module does not cite the paper"
        return
    parsed = docstring_parser.parse(inspect.getdoc(each.value) or "", docstring_parser.DocstringStyle.NUMPYDOC)
    references = [meta.description or "" for meta in parsed.meta if meta.args[:1] == ["references"]]
    if not any(map(CITATION.search, references)):
        yield f"{each.name}: no References to the paper"


@pytest.mark.parametrize("package", api.packages())
def test_public_names_are_documented(package: str) -> None:
    texts = [f"{each.name}: {text}" for each in api.public(package) for text in all_problems(each)]
    texts += [] if hasattr(importlib.import_module(package), "__all__") else ["no __all__"]

    assert texts == []


def test_first_lines_of_modules_say_what_they_hold() -> None:
    texts = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in (api.ROOT / "refemu").rglob("*.py")}

    assert [path for path, text in texts.items() if not text or ASKING.match(text)] == []


PARAMETERS = "Parameters\n----------\nx : int\n    Factor.\n\n"
RETURNS = "Returns\n-------\nint\n    Product.\n\n"
RAISES = "Raises\n------\nRefused\n    Below 0.\n"


def described(docstring: str) -> Callable[..., int]:
    """A function of x that refuses, with this docstring."""

    def function(x: int) -> int:
        return require_int(x, 0, 9, "function", "x")

    function.__doc__ = docstring
    return function


def test_a_whole_docstring_passes() -> None:
    assert list(problems("f", described(f"Multiply.\n\n{PARAMETERS}{RETURNS}{RAISES}"))) == []


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        (f"Multiply.\n\n{RETURNS}{RAISES}", "described []"),
        (f"Multiply.\n\n{PARAMETERS.replace('x :', 'y :')}{RETURNS}{RAISES}", "described ['y']"),
        (f"Multiply.\n\n{PARAMETERS.replace(' : int', '')}{RETURNS}{RAISES}", "without type"),
        (f"Multiply.\n\n{PARAMETERS.replace('    Factor.', '')}{RETURNS}{RAISES}", "without type or description"),
        (f"Multiply.\n\n{PARAMETERS}{RAISES}", "no Returns"),
        (f"Multiply.\n\n{PARAMETERS}{RETURNS}", "no Raises"),
        (f"What is multiplied.\n\n{PARAMETERS}{RETURNS}{RAISES}", "no first line"),
    ],
)
def test_a_missing_or_wrong_part_is_seen(docstring: str, text: str) -> None:
    assert any(text in problem for problem in problems("f", described(docstring)))


def test_one_line_is_enough_for_an_override_of_what_is_documented() -> None:
    base = type(
        "Base", (), {"scale": described(f"Multiply.\n\n{PARAMETERS}{RETURNS}{RAISES}"), "__module__": "refemu.x"}
    )
    child = type("Child", (base,), {})
    short, other = described("Multiply by 3."), described("Multiply by 3.")
    vars(base)["scale"].__module__ = "refemu.x"
    short.__name__, other.__name__ = "scale", "shift"

    assert list(override_problems("f", short, child)) == []
    assert len(list(override_problems("f", other, child))) == 3


def test_a_field_without_a_comment_is_seen() -> None:
    source = "class State:\n    '''State.'''\n    acc: int  #: register\n    sum: int\n"
    (body,) = ast.parse(source).body

    assert isinstance(body, ast.ClassDef) and uncommented(body, source.splitlines()) == ["sum"]


def test_a_function_without_its_paper_is_seen() -> None:
    fuse = Public("", "fuse", units.module("bfp_accumulator").fuse, units.module("bfp_accumulator"))
    uncited = dataclasses.replace(fuse, value=described("Join the sums of the nibbles."))

    assert list(citation_problems(fuse)) == []
    assert list(citation_problems(uncited)) == ["fuse: no References to the paper"]


def test_methods_of_a_base_that_is_not_public_are_looked_at() -> None:
    names = {name for name, _, _ in members(units.module("page_manager").PageManager)}

    assert {"finish", "cells"} <= names and "snapshot" not in names


def test_layers_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, refemu\n"
        "assert {'formats', 'units', 'models', 'golden'} <= set(dir(refemu)) and 'numpy' not in sys.modules\n"
        "assert refemu.formats.INT4.width == 4 and refemu.__version__ and not hasattr(refemu, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Defaults of a function by parameter, `inspect.Parameter.empty` where there is none."""
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


def test_compiled_forms_have_the_defaults_of_readable_ones() -> None:
    """Of parameters of both: a compiled form may have some of its own, such as threads."""
    pairs = []
    for info in pkgutil.walk_packages(refemu.__path__, "refemu."):
        name = info.name.replace(".twins.", ".").removesuffix(".compiled")
        if name != info.name and importlib.util.find_spec(name):
            forms = [importlib.import_module(each) for each in (info.name, name)]
            names = sorted(vars(forms[0]).keys() & vars(forms[1]).keys())
            pairs += [
                pair for each in names if all(map(inspect.isfunction, pair := [vars(form)[each] for form in forms]))
            ]
    differing = []
    for compiled, readable in pairs:
        left, right = defaults(compiled), defaults(readable)
        differing += [
            f"{compiled.__module__}.{compiled.__name__}: {name}"
            for name in left
            if left[name] != right.get(name, left[name])
        ]

    assert differing == [] and len(pairs) > 20


def test_units_made_of_one_another_share_their_defaults() -> None:
    """layer_step hands options on to page_manager; numbers of heads and pages are its own."""
    layer, manager = (defaults(units.find(name).unit_class) for name in ("layer_step", "page_manager"))
    assert {name for name in layer.keys() & manager.keys() if layer[name] != manager[name]} <= {"heads", "pages"}
