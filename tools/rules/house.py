"""What rules read: the repository as texts, and each module of refemu as a syntax tree that is parsed once."""

import ast
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: files that rules read, by folder below the root
READ = {"refemu": ("*.py", "*.pyi"), "tests": ("*.py",), "docs": ("*.md",)}
Place = tuple[str, int, str]  #: path, line, what is wrong
Check = Callable[["House"], Iterable[Place]]


class Rule(NamedTuple):
    """A rule: what it asks for, what to do where it is broken, and the function that yields these places."""

    name: str
    summary: str
    fix: str
    check: Check


RULES: dict[str, Rule] = {}


def rule(fix: str) -> Callable[[Check], Check]:
    """Register a function of the house as the rule of its name, with the first line of its docstring as summary."""

    def register(check: Check) -> Check:
        name = check.__name__.replace("_", "-")
        RULES[name] = Rule(name, (check.__doc__ or "").splitlines()[0], fix, check)
        return check

    return register


def module_rule(fix: str) -> Callable[[Callable[["Module"], Iterable[tuple[int, str]]]], Check]:
    """Register a function of one module, which yields lines and what is wrong there."""

    def register(check: Callable[["Module"], Iterable[tuple[int, str]]]) -> Check:
        @functools.wraps(check)
        def of_all(house: House) -> Iterator[Place]:
            for module in house.modules.values():
                yield from ((module.path, line, what) for line, what in check(module))

        return rule(fix)(of_all)

    return register


class Call(NamedTuple):
    """A call: the name of the function, and the root of what it is an attribute of, None for a bare name."""

    node: ast.Call
    name: str
    owner: str | None


class Module:
    """A module of refemu: its file, its name, and its nodes by type."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, text.splitlines()
        self.short = path.removeprefix("refemu/")
        self.name = path.partition(".py")[0].replace("/", ".").removesuffix(".__init__")
        self.tree = ast.parse(text)
        self._nodes: dict[type, list[Any]] = defaultdict(list)
        for node in ast.walk(self.tree):
            self._nodes[type(node)].append(node)
        self.calls = [Call(node, *called(node)) for node in self._nodes[ast.Call]]
        assigned = {ast.unparse(node.targets[0]): node.value for node in self.of(ast.Assign)}
        self.exported: list[str] = ast.literal_eval(assigned.get("__all__", ast.List([])))

    def of(self, *kinds: type) -> Iterator[Any]:
        """Yield the nodes of these types."""
        for kind in kinds:
            yield from self._nodes[kind]

    @functools.cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """The statement that defines each name of the module, imports left out."""
        statements: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                statements[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                statements |= dict.fromkeys(stored(node), node)
        return statements

    @functools.cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Where `from a import b` takes each name, as (a, b); of `*`, "*"."""
        places = {}
        for node in self.of(ast.ImportFrom):
            place = f"{self.name}.{node.module}" if node.level else node.module
            places |= {each.asname or each.name: (place, each.name) for each in node.names}
        return places


class House:
    """The repository. texts: by path below the root; root: where other files are; None in a planted one."""

    def __init__(self, texts: Mapping[str, str], root: Path | None = None) -> None:
        self.texts, self.root = texts, root

    @classmethod
    def read(cls, root: Path) -> "House":
        """The repository in a folder."""
        paths = [path for folder, kinds in READ.items() for kind in kinds for path in (root / folder).rglob(kind)]
        return cls({path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}, root)

    @functools.cached_property
    def modules(self) -> dict[str, Module]:
        """Modules of refemu by name."""
        paths = [path for path in self.texts if path.startswith("refemu/") and path.endswith(".py")]
        return {module.name: module for module in (Module(path, self.texts[path]) for path in paths)}

    @functools.cached_property
    def stubs(self) -> dict[str, Module]:
        """Stubs of packages that import when asked, by the name of the package."""
        paths = [path for path in self.texts if path.endswith(".pyi") and "attach_stub" in self.texts[path[:-1]]]
        return {module.name: module for module in (Module(path, self.texts[path]) for path in paths)}

    def front(self, name: str) -> Module | None:
        """The module that says what another one finds in `name`."""
        return self.stubs.get(name) or self.modules.get(name)

    def definition(self, module: Module, name: str) -> tuple[Module, ast.stmt | None] | None:
        """Where a name that a module defines or imports is defined; a module that it imports has no statement."""
        if name in module.defined:
            return module, module.defined[name]
        place, original = module.imported.get(name) or module.imported.get("*") or ("", "")
        if f"{place}.{original}" in self.modules:
            return self.modules[f"{place}.{original}"], None
        front = self.front(place)
        return self.definition(front, name if original == "*" else original) if front else None


def called(call: ast.Call) -> tuple[str, str | None]:
    """Name of the function called and the root of what it is an attribute of (None for a bare name)."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr, root_of(call.func.value) or ""
    return (call.func.id, None) if isinstance(call.func, ast.Name) else ("", None)


def root_of(node: ast.AST) -> str | None:
    """The first name of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def last_of(node: ast.AST) -> str:
    """The last name of `a.b.c`, or of a call of it."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def stored(*nodes: ast.AST) -> set[str]:
    """Names that are assigned anywhere in some nodes."""
    inner = (each for node in nodes for each in ast.walk(node))
    return {each.id for each in inner if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
