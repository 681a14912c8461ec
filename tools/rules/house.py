"""Input of the rules: the repository as texts, and each module of refemu as a syntax tree, parsed once."""

import ast
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: files that rules read, by folder below the root
READ = {"refemu": ("*.py", "*.pyi"), "tests": ("*.py",), "docs": ("*.md",)}
Place = tuple[str, int, str]  #: path, line, what is wrong
Found = Iterable[tuple[int, str]]  #: lines of one module, with what is wrong
Check = Callable[["House"], Iterable[Place]]


class Rule(NamedTuple):
    """A rule: its summary, what to do about a violation, and the function that yields violations."""

    name: str
    summary: str
    fix: str
    check: Check


RULES: dict[str, Rule] = {}


def rule(fix: str) -> Callable[[Check], Check]:
    """Register a function of the repository as the rule of its name; the first line of its docstring is the summary."""

    def register(check: Check) -> Check:
        name = check.__name__.replace("_", "-")
        RULES[name] = Rule(name, (check.__doc__ or "").splitlines()[0], fix, check)
        return check

    return register


def module_rule(fix: str) -> Callable[[Callable[["Module"], Found]], Check]:
    """Register a function of one module."""

    def register(check: Callable[["Module"], Found]) -> Check:
        def of_all(house: House) -> Iterable[Place]:
            return ((each.path, line, what) for each in house.modules.values() for line, what in check(each))

        return rule(fix)(functools.update_wrapper(of_all, check))

    return register


class Module:
    """A module of refemu: its file, its name, and its nodes by type."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, text.splitlines()
        self.short = path.removeprefix("refemu/")
        self.name = name_of(path)
        self.tree = ast.parse(text)
        self._nodes: dict[type, list[Any]] = defaultdict(list)
        for node in ast.walk(self.tree):
            self._nodes[type(node)].append(node)
        self.calls = [(node, *called(node)) for node in self.of(ast.Call)]
        assigned = {ast.unparse(node.targets[0]): node.value for node in self.of(ast.Assign)}
        self.exported: list[str] = ast.literal_eval(assigned.get("__all__", ast.List([])))

    def of(self, *kinds: type) -> list[Any]:
        """Nodes of these types."""
        return [node for kind in kinds for node in self._nodes[kind]]

    @functools.cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """The statement that defines each name of the module, except imports."""
        statements: dict[str, ast.stmt] = {}
        guarded = (each for node in self.tree.body if isinstance(node, ast.If | ast.Try) for each in ast.walk(node))
        for node in (*guarded, *self.tree.body):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                statements[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                statements |= dict.fromkeys(stored(node), node)
        return statements

    @functools.cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Source of each name of `from a import b`, as (a, b)."""
        places = {}
        for node in self.of(ast.ImportFrom):
            place = f"{self.name}.{node.module}" if node.level else node.module
            places |= {each.asname or each.name: (place, each.name) for each in node.names}
        return places

    @property
    def stars(self) -> list[str]:
        """Modules of which all names are imported."""
        return [node.module for node in self.of(ast.ImportFrom) if node.names[0].name == "*"]


class House:
    """The repository. texts: by path below the root; root: of other files; None in a planted one."""

    def __init__(self, texts: Mapping[str, str], root: Path | None = None) -> None:
        self.texts, self.root = texts, root
        self._parsed: dict[str, Module] = {}

    @classmethod
    def read(cls, root: Path) -> "House":
        """The repository in a folder."""
        paths = [path for folder, kinds in READ.items() for kind in kinds for path in (root / folder).rglob(kind)]
        return cls({path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}, root)

    @functools.cached_property
    def paths(self) -> dict[str, str]:
        """Files of refemu by module name; for a package with lazy imports, its stub."""
        files = [path for path in self.texts if path.startswith("refemu/") and path.endswith(".py")]
        stubs = [f"{path}i" for path in files if f"{path}i" in self.texts and "attach_stub" in self.texts[path]]
        return {name_of(path): path for path in (*files, *stubs)}

    @functools.cached_property
    def modules(self) -> dict[str, Module]:
        """Modules of refemu by name, no stubs."""
        return {name: self.parse(path.removesuffix("i")) for name, path in self.paths.items()}

    def parse(self, path: str) -> Module:
        """The module in a file, parsed at first use."""
        if path not in self._parsed:
            self._parsed[path] = Module(path, self.texts[path])
        return self._parsed[path]

    def front(self, name: str) -> Module | None:
        """The module that `name` refers to in another one."""
        return self.parse(self.paths[name]) if name in self.paths else None

    def definition(self, module: Module, name: str) -> tuple[Module, ast.stmt | None] | None:
        """Where a name that a module defines or imports is defined; an imported module has no statement."""
        if name in module.defined:
            return module, module.defined[name]
        place, original = module.imported.get(name, ("", ""))
        if inner := self.front(f"{place}.{original}"):
            return inner, None
        sources = [(place, original)] if place else [(each, name) for each in module.stars]
        found = (self.definition(front, of) for each, of in sources if (front := self.front(each)))
        return next(filter(None, found), None)


def name_of(path: str) -> str:
    """The name of the module in a file."""
    return path.partition(".py")[0].replace("/", ".").removesuffix(".__init__")


def called(call: ast.Call) -> tuple[str, str | None]:
    """Name of the called function, and the root of its attributes (None for a bare name)."""
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
