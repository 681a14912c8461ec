"""The house as a graph of imports: its rules, as functions of sources by module name, so that a test can plant any.

`refemu.units.kllm.orizuru.unit` is a module; `refemu.units.kllm.orizuru` is its block, whose files beside it lie in
`twins/`, `cases/` and `kernels/`. Every rule returns the violations it met, as `importer -> imported`.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tests.syntax_rules import tree

PAPERS = ("olive", "kllm", "harmonia", "leankv")
LAYERS = ("arith", "formats", "units", "draw", "models", "golden", "cli")
BESIDE = ("twins", "cases", "kernels", "alternatives")
NAMED = re.compile(r"(refemu(?:\.\w+)+)(?::\w+)?")
COMPILED = re.compile(r"refemu\.arith\.(float_jit\b.*|\w+_jit)")
#: shared modules that find things of papers by name
REGISTRIES = {
    "refemu.formats",
    "refemu.draw.registry",
    "refemu.formats.ready",
    "refemu.formats.structure",
    "refemu.units",
    "refemu.models.schemes.registry",
    "refemu.cli.show",
    "refemu.cli.study",
}


@dataclass(frozen=True)
class Edge:
    """One module that another one needs. kind: "top", "inside" a function, "typing" or "string"."""

    source: str
    target: str
    kind: str
    bound: str = ""  #: name that the importer gives it, where it is imported as a whole

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}" + ("" if self.kind == "top" else f" ({self.kind})")


def sources(root: Path) -> dict[str, str]:
    """The text of every module of the package at `root`, by name."""
    return {module(path.relative_to(root.parent)): path.read_text() for path in sorted(root.rglob("*.py"))}


def module(path: Path) -> str:
    """The name of the module in a file of the repository."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def edges(texts: Mapping[str, str]) -> list[Edge]:
    """What every module imports of refemu, at any depth, and which modules its strings name."""
    return [edge for name, text in texts.items() for edge in needs(name, text, set(texts))]


def needs(name: str, text: str, known: Set[str]) -> list[Edge]:
    """What one module imports, if `known` are the modules there are."""
    return list(_edges(name, tree(text), known, "top"))


def _edges(name: str, node: ast.AST, known: Set[str], kind: str) -> Iterator[Edge]:
    if isinstance(node, ast.Import):
        yield from (Edge(name, alias.name, kind, alias.asname or alias.name) for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            whole = full in known
            yield Edge(name, full if whole else node.module, kind, (alias.asname or alias.name) if whole else "")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        match = NAMED.fullmatch(node.value)
        if match and match[1] in known:
            yield Edge(name, match[1], "string")
    inside = "inside" if isinstance(node, ast.FunctionDef | ast.Lambda) else kind
    typed = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
    for child in ast.iter_child_nodes(node):
        for edge in _edges(name, child, known, "typing" if child in typed else inside):
            if edge.target.startswith("refemu"):
                yield edge


def layer(name: str) -> str:
    """The folder of refemu that a module lies in."""
    return f"{name}..".split(".")[1]


def paper(name: str) -> str:
    """The paper whose folder a module lies in, or ""."""
    parts = name.removeprefix("refemu.models.schemes.").removeprefix(f"refemu.{layer(name)}.").split(".")
    return parts[0] if parts[0] in PAPERS else ""


def kind_of(name: str) -> str:
    """ "twins", "cases" or "kernels" where a module lies beside blocks, else ""."""
    return next((part for part in name.split(".") if part in BESIDE), "")


def block(name: str) -> str:
    """The block that a module belongs to: `refemu.units.kllm.orizuru` for its unit, its inner files, twin and cases."""
    parts = [part for part in name.split(".") if part not in BESIDE]
    return ".".join(parts[:4])


def upward(graph: list[Edge]) -> list[str]:
    """Rule 1: layers point down, `draw` and `models` stand beside each other, and `refemu.testing` beside `cli`.

    What formats and units show in a notebook is drawn above them: they may name a drawing by a string.
    """
    allowed = {name: set(LAYERS[: number + 1]) for number, name in enumerate(LAYERS)}
    allowed["models"] -= {"draw"}
    allowed["testing"] = {"arith", "formats", "units", "golden", "testing"}
    return [
        str(edge)
        for edge in graph
        if layer(edge.target) in {*LAYERS, "testing"}
        and layer(edge.target) not in allowed.get(layer(edge.source), {*LAYERS, "testing"})
        and not (edge.kind == "string" and layer(edge.target) == "draw" and layer(edge.source) in ("formats", "units"))
    ]


def across(graph: list[Edge]) -> list[str]:
    """Rule 2: nothing of one paper imports anything of another."""
    return [
        str(edge)
        for edge in graph
        if paper(edge.source) and paper(edge.target) and paper(edge.source) != paper(edge.target)
    ]


def named(graph: list[Edge]) -> list[str]:
    """Rule 3: shared modules below `golden` name no paper, but for the registries; likewise all the rest."""
    return [
        str(edge)
        for edge in graph
        if paper(edge.target)
        and not paper(edge.source)
        and edge.source not in REGISTRIES
        and layer(edge.source) != "testing"
    ]


def compiled(graph: list[Edge]) -> list[str]:
    """Rule 4: who imports the compiler, and who imports compiled code before a function needs it."""
    wrong = []
    for edge in graph:
        beside = kind_of(edge.source) in ("twins", "kernels") or edge.source == "refemu.units.compiled"
        may = beside or layer(edge.source) == "arith"
        compiles = kind_of(edge.target) in ("twins", "kernels") or COMPILED.fullmatch(edge.target)
        if edge.target == "refemu.arith.jit" and not may and edge.source != "refemu.golden.campaign.server":
            wrong.append(str(edge))
        if compiles and not may and edge.kind == "top":
            wrong.append(str(edge))
    return wrong


def inner(graph: list[Edge], texts: Mapping[str, str]) -> list[str]:
    """Rule 5: cases and inner files are imported by their block, by its twin and cases, cases by those of blocks that
    contain it too; and cases import nothing of their block at module level.
    """
    wrong = []
    contains = {
        (block(edge.source), block(edge.target))
        for edge in graph
        if kind_of(edge.source) != "cases" and block(edge.source) != block(edge.target)
    }
    for edge in graph:
        own = block(edge.source) == block(edge.target)
        if kind_of(edge.target) == "cases" and not own and edge.target.split(".")[-1] != "cases":
            within = kind_of(edge.source) == "cases" and (block(edge.source), block(edge.target)) in contains
            wrong += [] if within else [str(edge)]
        if own and kind_of(edge.source) == "cases" and not kind_of(edge.target) and edge.kind == "top":
            wrong.append(str(edge))
        inside = layer(edge.target) == "units" and not kind_of(edge.target) and edge.target != block(edge.target)
        if inside and not own and block(edge.target) in texts and edge.target.count(".") == 4:
            wrong.append(str(edge))
    return wrong


def circles(graph: list[Edge], texts: Mapping[str, str]) -> list[list[str]]:
    """Rule 6: no circle of imports, those in functions and for type checkers included, nor through the packages above.

    A package that only re-exports does not count, nor do strings.
    """
    exports = {name for name, text in texts.items() if _only_exports(name, text, texts)}
    wanted: dict[str, set[str]] = {name: set() for name in texts}
    for edge in graph:
        if edge.kind != "string" and edge.source not in exports:
            above = [".".join(edge.target.split(".")[:count]) for count in range(1, edge.target.count(".") + 2)]
            wanted[edge.source] |= {
                name
                for name in above
                if name in texts
                and name not in exports
                and name != edge.source
                and not edge.source.startswith(f"{name}.")
            }
            if edge.target in exports:
                wanted[edge.source] |= _exported(edge.target, graph, exports) - {edge.source}
    return _components(wanted)


def _exported(package: str, graph: list[Edge], exports: set[str]) -> set[str]:
    """The modules that a package re-exports names of."""
    return {edge.target for edge in graph if edge.source == package and edge.kind != "string"} - exports


def _only_exports(name: str, text: str, texts: Mapping[str, str]) -> bool:
    """Whether a package holds imports and names of what it exports, nothing else."""
    if not any(other.startswith(f"{name}.") for other in texts):
        return False
    plain = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)
    return all(isinstance(node, plain) for node in tree(text).body)


def _components(needs: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that need each other, by Tarjan's algorithm without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []
    for start in needs:
        work = [(start, iter(sorted(needs[start])))] if start not in order else []
        if work:
            order[start] = low[start] = len(order)
            stack.append(start)
        while work:
            name, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(sorted(needs[target]))))
                    break
                if target in stack:
                    low[name] = min(low[name], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    group = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    groups += [sorted(group)] if len(group) > 1 else []
    return groups


def misnamed(graph: list[Edge]) -> list[str]:
    """Rule 8: a twin is imported as `<block>_jit`, cases as `<block>_cases` or `cases`; neither hides the block."""
    suffix = {"twins": "_jit", "cases": "cases"}
    return [
        f"{edge} as {edge.bound}"
        for edge in graph
        if edge.bound
        and kind_of(edge.target) in suffix
        and edge.target.split(".")[-1] not in BESIDE
        and kind_of(edge.source) != kind_of(edge.target)
        and not edge.bound.endswith(suffix[kind_of(edge.target)])
    ]


def untested(graph: list[Edge], texts: Mapping[str, str], tests: set[str]) -> list[str]:
    """Rule 7: modules without a test module at the mirrored path.

    Packages and `__main__` need none. Twins, cases and inner files share the tests of their block, kernels those of
    the twins that import them, and a compiled module of arith those of its readable form.
    """
    users: dict[str, set[str]] = {}
    for edge in graph:
        users.setdefault(edge.target, set()).add(edge.source)
    packages = {name.rpartition(".")[0] for name in texts}
    missing = []
    for name in sorted(set(texts) - packages):
        if kind_of(name) == "alternatives":  # tests/units/test_alternative.py holds every one
            continue
        if re.fullmatch(
            r"refemu\.models\.schemes\.\w+\.scheme", name
        ):  # tests/models/schemes/test_kind.py holds every one
            continue
        shared = {name, readable(name), block(name) if layer(name) == "units" else name}
        if kind_of(name) == "kernels":
            shared |= {block(user) if layer(user) == "units" else readable(user) for user in users.get(name, ())}
        if not {_mirrored(each) for each in shared} & tests and not name.endswith(".__main__"):
            missing.append(name)
    return missing


def readable(name: str) -> str:
    """The module that a twin is the twin of."""
    return ".".join(part for part in name.split(".") if part not in BESIDE).removesuffix("_jit")


def _mirrored(name: str) -> str:
    above, _, last = name.removeprefix("refemu").removeprefix(".").rpartition(".")
    return ".".join(filter(None, ["tests", above, f"test_{last}"]))
