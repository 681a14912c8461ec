"""Rules of the import graph: layers, papers, blocks, circles, compiled code, and the test of each module.

Modules of a block have a kind by their folder or file: `refemu.units.kllm.orizuru.cases` has cases. Every edge counts:
imports inside functions and for type checkers, and modules named by strings.
"""

import ast
import functools
import graphlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tools.rules.house import Check, Found, House, Module, Place, module_rule, rule

PAPERS = ("olive", "kllm", "harmonia", "leankv")
LAYERS = ("arith", "formats", "units", "prove", "draw", "models", "golden", "studies", "cli")
#: layers that each may import; golden and studies do not import each other, nor do draw and models
ALLOWED = {name: {*LAYERS[: number + 1]} for number, name in enumerate(LAYERS)}
ALLOWED |= {"models": ALLOWED["models"] - {"draw", "prove"}, "draw": ALLOWED["draw"] - {"prove"}}
ALLOWED["studies"] -= {"draw", "golden", "prove"}
ALLOWED["harness"] = {*LAYERS[:3], "models", "harness"}
ALLOWED["testing"] = {*LAYERS[:3], "golden", "testing"}
SUFFIX = {
    "compiled": "_compiled",
    "cases": "cases",
}  #: suffixes of the names under which modules of a block are imported
#: modules and folders of a block, by content
KINDS = {"compiled": "compiled", "cases": "cases", "kernels": "kernels", "variants": "variants"}
NAMED = re.compile(r"(refemu(?:\.\w+)+)(?::\w+)?")
COMPILED = re.compile(r"refemu\.arith\.(kernels\b.*|\w+_compiled)")
#: shared modules that find parts of papers by name
REGISTRIES = {
    *("refemu.formats", "refemu.formats.presets", "refemu.formats.structure", "refemu.units", "refemu.draw.registry"),
    *("refemu.models.schemes.registry", "refemu.cli.show"),
}
COMPILERS = (
    *("refemu.arith.jit", "refemu.arith.jit.digest", "refemu.arith.jit.parts", "refemu.arith.kernels.scalars"),
    "refemu.models.schemes.kllm.compiled.panels",
)
#: packages that only some modules may import: those modules, or the folder of a layer
THIRD_PARTY = {"numba": COMPILERS, "llvmlite": COMPILERS, "hypothesis": ("refemu.testing",)}


class Edge(NamedTuple):
    """A module that another one needs. kind: "top", "late" in a function or for type checkers, or "string"."""

    source: str
    target: str
    kind: str
    line: int
    bound: str  #: name in the importing module, if imported as a whole


@functools.lru_cache(1)  # shared by all rules
def edges(house: House) -> list[Edge]:
    """Imports of every module, at any depth, and the modules of refemu that its strings name."""
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
            yield Edge(module.name, match[1], "string", node.lineno, "")


def edge_rule(fix: str) -> Callable[[Callable[[Edge], bool]], Check]:
    """Register a function that says whether an edge violates the rule of its name."""

    def register(breaks: Callable[[Edge], bool]) -> Check:
        def of_all(house: House) -> Iterator[Place]:
            return (at(house, edge) for edge in edges(house) if breaks(edge))

        return rule(fix)(functools.update_wrapper(of_all, breaks))

    return register


def at(house: House, edge: Edge) -> Place:
    """Position of an edge."""
    verb, bound = "names" if edge.kind == "string" else "imports", f" as {edge.bound}" if edge.bound else ""
    return house.modules[edge.source].path, edge.line, f"{verb} {edge.target}{bound}"


def layer(name: str) -> str:
    """The folder of refemu with a module, or ""."""
    return f"{name}..".split(".")[1] if name.startswith("refemu.") else ""


def paper(name: str) -> str:
    """The paper whose folder a module is in, or ""."""
    parts = name.removeprefix("refemu.models.schemes.").removeprefix(f"refemu.{layer(name)}.").split(".")
    return parts[0] if parts[0] in PAPERS else ""


def kind_of(name: str) -> str:
    """ "compiled", "cases", "kernels" or "variants" for such a module of a block, else ""."""
    return next((KINDS[part] for part in name.split(".") if part in KINDS), "")


def block(name: str) -> str:
    """The block that a module belongs to: `refemu.units.kllm.orizuru` for all of its files."""
    return ".".join([part for part in name.split(".") if part not in KINDS][:4])


@edge_rule("move what both need to the lower layer")
def layers(edge: Edge) -> bool:
    """Imports go down the layers only: arith, formats, units, draw or models, golden or studies, cli.

    Drawings shown in notebooks are in a layer above formats and units, which may name them by strings.
    """
    source, target = layer(edge.source), layer(edge.target)
    if source == "arith":  # `refemu.home` finds the user's folder
        return target not in ("", "arith", "home")
    if edge.kind == "string" and target == "draw" and source in ("formats", "units"):
        return False
    return target in (*LAYERS, "testing") and source in ALLOWED and target not in ALLOWED[source]


@edge_rule("move what both papers need to a shared module")
def papers(edge: Edge) -> bool:
    """No module of one paper imports one of another."""
    return "" != paper(edge.source) != paper(edge.target) != ""


@edge_rule("pass it in, or find it by name through a registry")
def shared(edge: Edge) -> bool:
    """Modules outside the folders of papers import nothing from a paper, except registries."""
    free = edge.source in REGISTRIES or layer(edge.source) == "testing"
    return bool(paper(edge.target)) and not paper(edge.source) and not free


@edge_rule("import it inside the function that needs it")
def early_compiled(edge: Edge) -> bool:
    """Compiled code is imported in the function that needs it; only compiled code imports the compiler."""
    if kind_of(edge.source) in ("compiled", "kernels") or layer(edge.source) == "arith":
        return False
    if edge.target == "refemu.arith.jit":
        return edge.source != "refemu.golden.campaign.server"
    of_refemu = layer(edge.target) and kind_of(edge.target) in ("compiled", "kernels")
    return edge.kind == "top" and bool(of_refemu or COMPILED.fullmatch(edge.target))


@edge_rule("import it as <block>_compiled, or <block>_cases or cases")
def bound_name(edge: Edge) -> bool:
    """Compiled forms and cases are imported under names that do not hide their block."""
    kind = kind_of(edge.target) if layer(edge.target) else ""
    plain = edge.bound in ("", *KINDS) or kind_of(edge.source) == kind
    return kind in SUFFIX and not plain and not edge.bound.endswith(SUFFIX[kind])


@edge_rule("import it in the modules of THIRD_PARTY in tools/rules/imports.py")
def third_party(edge: Edge) -> bool:
    """Each of numba, llvmlite and hypothesis is imported in few modules."""
    may = THIRD_PARTY.get(edge.target.split(".")[0], (edge.source,))
    return not {edge.source, f"refemu.{layer(edge.source)}"} & {*may}


@rule("import what the block exports")
def blocks(house: House) -> Iterator[Place]:
    """Only their own block uses cases and inner files; the module of a block's name is not an inner file.

    Its compiled form and cases may use both, and cases may use those of contained blocks. Cases import nothing of their
    block at module level.
    """
    contains = {(block(edge.source), block(edge.target)) for edge in edges(house) if kind_of(edge.source) != "cases"}
    for edge in edges(house):
        same = block(edge.source) == block(edge.target)
        within = kind_of(edge.source) == "cases" and (block(edge.source), block(edge.target)) in contains
        foreign = kind_of(edge.target) == "cases" and layer(edge.target) and not within
        parts = edge.target.split(".")
        part = layer(edge.target) == "units" and not kind_of(edge.target) and parts[4:] not in ([], parts[3:4])
        inner = part and block(edge.target) in house.modules
        early = kind_of(edge.source) == "cases" and not kind_of(edge.target) and edge.kind == "top"
        if early if same else foreign or inner:
            yield at(house, edge)


@rule("move what both need to a third module")
def circle(house: House) -> Iterator[Place]:
    """No module depends on itself, nor through imports in functions, for type checkers, or in parent packages.

    Packages that only re-export do not count, nor do strings.
    """
    graph = edges(house)
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
        lines = [edge.line for edge in graph if edge.source == group[1] and edge.target.startswith(group[0])]
        yield house.modules[group[1]].path, min(lines, default=1), f"circle of {' <- '.join(group)}"


def _only_exports(house: House, module: Module) -> bool:
    """Whether a package has only imports and names of its exports."""
    if not any(other.startswith(f"{module.name}.") for other in house.modules):
        return False
    plain = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)
    return all(isinstance(node, plain) for node in module.tree.body)


@module_rule("import from refemu")
def relative_import(module: Module) -> Found:
    """Imports are absolute."""
    return [(node.lineno, "relative import") for node in module.of(ast.ImportFrom) if node.level]


@rule("write it at the mirrored path, or list the module that covers it in tools/rules/exceptions.py")
def untested(house: House) -> Iterator[Place]:
    """Each module has a test module at the mirrored path.

    Packages and `__main__` need none. Compiled forms, cases and inner files share the tests of their block, kernels
    those of the compiled forms that import them, and compiled modules of arith those of their readable forms.
    """
    users: dict[str, set[str]] = {}
    for edge in edges(house):
        users.setdefault(edge.target, set()).add(edge.source)
    packages = {name.rpartition(".")[0] for name in house.modules}
    for name, module in house.modules.items():
        if kind_of(name) == "variants" or name in packages or name.endswith(".__main__"):
            continue  # tests/units/test_variant.py runs every variant
        sharing = {name, readable(name), block(name) if layer(name) == "units" else name}
        if kind_of(name) == "kernels":
            sharing |= {block(user) if layer(user) == "units" else readable(user) for user in users.get(name, ())}
        if house.texts.keys().isdisjoint(map(mirrored, sharing)):
            yield module.path, 1, "no test module"


def readable(name: str) -> str:
    """The module of which this one is the compiled form."""
    return ".".join(part for part in name.split(".") if part not in KINDS).removesuffix("_compiled")


def mirrored(name: str) -> str:
    """The path of the test module of a module."""
    above, _, last = name.removeprefix("refemu").removeprefix(".").rpartition(".")
    return "/".join(filter(None, ["tests", *above.split("."), f"test_{last}.py"]))
