"""Rules of the graph of imports: layers, papers, blocks, circles, compiled code, and the test of each module.

Modules of a block have its kind by the folder or file that holds them: `refemu.units.kllm.orizuru.cases` has cases.
Every edge counts: imports inside functions and for type checkers, and modules that strings name.
"""

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.rules.house import House, Module, Place, rule

PAPERS = ("olive", "kllm", "harmonia", "leankv")
LAYERS = ("arith", "formats", "units", "draw", "models", "golden", "cli")
#: modules and folders of a block, by what they hold
KINDS = {"twins": "compiled", "compiled": "compiled", "cases": "cases", "kernels": "kernels"}
KINDS |= {"alternatives": "variants", "variants": "variants"}
NAMED = re.compile(r"(refemu(?:\.\w+)+)(?::\w+)?")
COMPILED = re.compile(r"refemu\.arith\.(float_jit\b.*|\w+_jit)")
#: shared modules that find things of papers by name
REGISTRIES = {
    *("refemu.formats", "refemu.formats.ready", "refemu.formats.structure", "refemu.units", "refemu.draw.registry"),
    *("refemu.models.schemes.registry", "refemu.cli.show", "refemu.cli.study"),
}
#: packages that only some modules may import: those modules, or the folder of a layer
THIRD_PARTY = {
    **dict.fromkeys(
        ("numba", "llvmlite"), ("refemu.arith.jit", "refemu.arith.jit.digest", "refemu.arith.float_jit.scalars")
    ),
    "hypothesis": ("refemu.testing",),  # and what is below it
}
OPTIONS = ("common", "devices", "models", "sets", "studies")
#: modules that tests elsewhere cover: where
TEST_ELSEWHERE = {
    **{f"refemu.cli.options.{name}": "tests/cli/test_arguments.py" for name in OPTIONS},
    "refemu.cli.unit_rows": "tests/cli/test_list.py",
    "refemu.testing.blocks": "tests/testing/test_plugin.py",
    "refemu.testing.save": "tests/testing/test_plugin.py",
    "refemu.testing.types": "tests/testing/test_strategies.py",
}


class Edge(NamedTuple):
    """One module that another one needs. kind: "top", "late" in a function or for type checkers, or "string"."""

    source: str
    target: str
    kind: str
    line: int
    bound: str = ""  #: name that the importer gives it, where it is imported as a whole

    def __str__(self) -> str:
        return f"imports {self.target}" if self.kind != "string" else f"names {self.target}"


@functools.lru_cache(1)  # for all rules
def edges(house: House) -> list[Edge]:
    """What every module imports, at any depth, and which modules of refemu its strings name."""
    return [edge for module in house.modules.values() for edge in _edges(house, module)]


def _edges(house: House, module: Module) -> Iterator[Edge]:
    later = [(node.lineno, node.end_lineno) for node in module.of(ast.FunctionDef)]
    later += [(node.lineno, node.end_lineno) for node in module.of(ast.If) if "TYPE_CHECKING" in ast.unparse(node.test)]
    for node in module.of(ast.Import, ast.ImportFrom):
        kind = "late" if any(first <= node.lineno <= last for first, last in later) else "top"
        for alias in node.names:
            full = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            whole = isinstance(node, ast.Import) or full in house.modules
            target = full if whole else node.module or ""
            yield Edge(module.name, target, kind, node.lineno, (alias.asname or alias.name) if whole else "")
    for node in module.of(ast.Constant):
        match = NAMED.fullmatch(node.value) if isinstance(node.value, str) else None
        if match and match[1] in house.modules:
            yield Edge(module.name, match[1], "string", node.lineno)


@functools.lru_cache(1)
def inside(house: House) -> list[Edge]:
    """The edges between modules of refemu."""
    return [edge for edge in edges(house) if edge.target.split(".")[0] == "refemu"]


def at(house: House, edge: Edge, what: str = "") -> Place:
    """Where an edge is."""
    return house.modules[edge.source].path, edge.line, what or str(edge)


def layer(name: str) -> str:
    """The folder of refemu that a module lies in."""
    return f"{name}..".split(".")[1]


def paper(name: str) -> str:
    """The paper whose folder a module lies in, or ""."""
    parts = name.removeprefix("refemu.models.schemes.").removeprefix(f"refemu.{layer(name)}.").split(".")
    return parts[0] if parts[0] in PAPERS else ""


def kind_of(name: str) -> str:
    """ "compiled", "cases", "kernels" or "variants" where a module is one of a block's, else ""."""
    return next((KINDS[part] for part in name.split(".") if part in KINDS), "")


def block(name: str) -> str:
    """The block that a module belongs to: `refemu.units.kllm.orizuru` for all of its files."""
    parts = [part for part in name.split(".") if part not in KINDS]
    return ".".join(parts[:4])


@rule("move what both need to the lower layer")
def layers(house: House) -> Iterator[Place]:
    """Imports point down the layers: arith, formats, units, draw or models, golden, cli.

    `draw` and `models` know nothing of each other. What formats and units show in a notebook is drawn above them: they
    may name a drawing by a string. arith imports nothing but itself and `refemu.home`.
    """
    allowed = {name: {*LAYERS[: number + 1]} for number, name in enumerate(LAYERS)}
    allowed["models"] -= {"draw"}
    allowed["testing"] = {"arith", "formats", "units", "golden", "testing"}
    for edge in inside(house):
        source, target = layer(edge.source), layer(edge.target)
        drawn = edge.kind == "string" and target == "draw" and source in ("formats", "units")
        known = target in {*LAYERS, "testing"} and target not in allowed.get(source, {*LAYERS, "testing"})
        if (known or (source == "arith" and target not in ("arith", "home"))) and not drawn:
            yield at(house, edge)


@rule("move what both papers need to a shared module")
def papers(house: House) -> Iterator[Place]:
    """Nothing of one paper imports anything of another."""
    for edge in inside(house):
        if paper(edge.source) and paper(edge.target) and paper(edge.source) != paper(edge.target):
            yield at(house, edge)


@rule("pass it in, or find it by name through a registry")
def shared(house: House) -> Iterator[Place]:
    """Modules outside the folders of papers import nothing of a paper, registries excepted."""
    for edge in inside(house):
        free = edge.source in REGISTRIES or layer(edge.source) == "testing"
        if paper(edge.target) and not paper(edge.source) and not free:
            yield at(house, edge)


@rule("import it inside the function that needs it")
def early_compiled(house: House) -> Iterator[Place]:
    """Compiled code and the compiler are imported where a function needs them."""
    for edge in inside(house):
        may = kind_of(edge.source) in ("compiled", "kernels") or layer(edge.source) == "arith"
        compiles = kind_of(edge.target) in ("compiled", "kernels") or COMPILED.fullmatch(edge.target)
        server = edge.source == "refemu.golden.campaign.server"
        if not may and ((compiles and edge.kind == "top") or (edge.target == "refemu.arith.jit" and not server)):
            yield at(house, edge)


@rule("import what the block exports")
def blocks(house: House) -> Iterator[Place]:
    """Cases and inner files are used by their own block alone.

    Its compiled form and cases may use both, and cases those of blocks that their block contains. Cases import nothing
    of their block at module level.
    """
    contains = {(block(edge.source), block(edge.target)) for edge in inside(house) if kind_of(edge.source) != "cases"}
    for edge in inside(house):
        same = block(edge.source) == block(edge.target)
        within = kind_of(edge.source) == "cases" and (block(edge.source), block(edge.target)) in contains
        foreign = kind_of(edge.target) == "cases" and not within
        part = layer(edge.target) == "units" and not kind_of(edge.target) and edge.target.count(".") == 4
        inner = part and block(edge.target) in house.modules and edge.target != block(edge.target)
        early = kind_of(edge.source) == "cases" and not kind_of(edge.target) and edge.kind == "top"
        if early if same else foreign or inner:
            yield at(house, edge)


@rule("move what both need to a third module")
def circle(house: House) -> Iterator[Place]:
    """No module needs itself, nor through imports in functions, for type checkers, or in the packages above.

    A package that only re-exports does not count, nor do strings.
    """
    graph = inside(house)
    exports = {name for name, module in house.modules.items() if _only_exports(house, module)}
    wanted: dict[str, set[str]] = {name: set() for name in house.modules}
    exported: dict[str, set[str]] = {name: set() for name in exports}
    for edge in graph:
        if edge.source in exports and edge.kind != "string":
            exported[edge.source].add(edge.target)
    for edge in graph:
        if edge.kind != "string" and edge.source not in exports:
            above = {".".join(edge.target.split(".")[:count]) for count in range(1, edge.target.count(".") + 2)}
            above |= exported.get(edge.target, set())
            above -= {name for name in above if f"{edge.source}.".startswith(f"{name}.")}
            wanted[edge.source] |= (above - exports) & house.modules.keys()
    try:
        graphlib.TopologicalSorter(wanted).prepare()
    except graphlib.CycleError as error:
        group = error.args[1]
        line = next(edge.line for edge in graph if edge.source == group[1] and edge.target.startswith(group[0]))
        yield house.modules[group[1]].path, line, f"circle of {' <- '.join(group)}"


def _only_exports(house: House, module: Module) -> bool:
    """Whether a package holds imports and names of what it exports, nothing else."""
    if not any(other.startswith(f"{module.name}.") for other in house.modules):
        return False
    plain = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)
    return all(isinstance(node, plain) for node in module.tree.body)


@rule("import it as <block>_jit, or <block>_cases or cases")
def bound_name(house: House) -> Iterator[Place]:
    """Compiled forms and cases are imported under names that do not hide their block."""
    suffix = {"compiled": "_jit", "cases": "cases"}
    for edge in inside(house):
        kind = kind_of(edge.target)
        plain = edge.bound in KINDS or kind_of(edge.source) == kind
        if edge.bound and kind in suffix and not plain and not edge.bound.endswith(suffix[kind]):
            yield at(house, edge, f"{edge} as {edge.bound}")


@rule("import it in these modules and use theirs elsewhere")
def third_party(house: House) -> Iterator[Place]:
    """Each of numba, llvmlite and hypothesis is imported in few modules."""
    for edge in edges(house):
        may = THIRD_PARTY.get(edge.target.split(".")[0])
        if may and not {edge.source, f"refemu.{layer(edge.source)}"} & {*may}:
            yield at(house, edge, f"{edge}, which {', '.join(may)} may")


@rule("import from refemu")
def relative_import(house: House) -> Iterator[Place]:
    """Imports are absolute."""
    for module in house.modules.values():
        yield from ((module.path, node.lineno, "relative import") for node in module.of(ast.ImportFrom) if node.level)


@rule("write it, or name in TEST_ELSEWHERE of tools/rules/imports.py the one that covers it")
def untested(house: House) -> Iterator[Place]:
    """Each module has a test module at the mirrored path.

    Packages and `__main__` need none. Compiled forms, cases and inner files share the tests of their block, kernels
    those of the compiled forms that import them, and a compiled module of arith those of its readable form.
    """
    users: dict[str, set[str]] = {}
    for edge in inside(house):
        users.setdefault(edge.target, set()).add(edge.source)
    packages = {name.rpartition(".")[0] for name in house.modules}
    for name, module in house.modules.items():
        if kind_of(name) == "variants" or name in packages or name.endswith(".__main__"):
            continue  # tests/units/test_alternative.py runs every variant
        sharing = {name, readable(name), block(name) if layer(name) == "units" else name}
        if kind_of(name) == "kernels":
            sharing |= {block(user) if layer(user) == "units" else readable(user) for user in users.get(name, ())}
        places = {TEST_ELSEWHERE.get(name, ""), *map(mirrored, sharing)}
        if not any(place in house.texts for place in places):
            yield module.path, 1, f"there is no {mirrored(name)}"


def readable(name: str) -> str:
    """The module that a compiled one is the compiled form of."""
    return ".".join(part for part in name.split(".") if part not in KINDS).removesuffix("_jit")


def mirrored(name: str) -> str:
    """The path of the test module of a module."""
    above, _, last = name.removeprefix("refemu").removeprefix(".").rpartition(".")
    return "/".join(filter(None, ["tests", *above.split("."), f"test_{last}.py"]))
