"""Code of a scheme outside refemu, and the files that it reads: what saved results of the scheme depend on.

Modules are found by the import statements of the scheme's file, those inside functions included. An audit hook sees
which files they open. Installed packages and the standard library do not count, except the scheme's own package.
"""

import ast
import dataclasses
import hashlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from refemu.models.schemes.scheme import Scheme

PACKAGE = str(Path(__file__).parents[2]) + os.sep
LIBRARY = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
INSTALLED = ("site-packages", "dist-packages")
#: functions that run code without an import statement
DYNAMIC = frozenset({"__import__", "import_module", "run_path", "run_module", "exec_module", "spec_from_file_location"})
BUILTIN = frozenset({"exec", "eval"})  #: the same, unless they are methods


class Source(NamedTuple):
    """A file of code."""

    path: str
    sha256: str
    imports: frozenset[str] | None  #: names of modules, with those of their packages; None: they cannot be known


_LOADED: "WeakKeyDictionary[ModuleType, Source]" = WeakKeyDictionary()  #: what loaded modules were read from
_OPENED: dict[str, set[str]] = {}  #: sha256 of the files that code opened, by the path of the code


def sha256(scheme: Scheme, prepare: object = None) -> str | None:
    """Digest of the code of a configuration, of the files that this code opened so far, and of files in parameters.

    prepare: function that prepares a model under it. The digest is "" if there are no files, such as for most
    configurations of refemu, and None if the code cannot be known.
    """
    _watch()
    sources = _sources(scheme, prepare)
    if sources is None:
        return None
    files = set(_named(scheme))
    for source in sources:
        files |= {source.sha256, *_OPENED.get(source.path, ())}
    return hashlib.sha256("".join(sorted(files)).encode()).hexdigest() if files else ""


def loads(module: ModuleType, source: bytes) -> None:
    """Take the source of a module that is about to run, and watch the files that it opens."""
    _LOADED[module] = _source(str(module.__file__), source, module.__name__)
    _OPENED.pop(str(module.__file__), None)
    _watch()


@cache
def is_own(path: str) -> bool:
    """Whether a file is neither refemu's nor of an installed package or the standard library."""
    return not path.startswith(("<", PACKAGE, *LIBRARY)) and not any(part in path for part in INSTALLED)


def raised_at(error: BaseException) -> str | None:
    """File and line of the code outside refemu that raised an error; None if refemu's code raised it."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(PACKAGE):
            return None
        if is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return None


def _named(scheme: Scheme) -> Iterator[str]:
    """Digest of every file that a parameter names."""
    for field in dataclasses.fields(scheme):  # type: ignore[arg-type]
        value = getattr(scheme, field.name)
        if isinstance(value, str) and os.path.isfile(value):
            yield f"{field.name}={_digest(value)}"


def _sources(scheme: Scheme, prepare: object) -> list[Source] | None:
    """The files of code of a configuration, with those that they import; None if they cannot be known."""
    homes = {type(scheme).__module__, getattr(prepare, "__module__", "refemu")}
    packages = {home.partition(".")[0] for home in homes} - {"refemu"}
    todo = {kind.__module__ for kind in type(scheme).__mro__} | homes
    sources, seen = [], set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        own_package = name.partition(".")[0] in packages
        source = _module(name, own_package)
        if (source is None and name in homes and own_package) or (source and source.imports is None):
            return None
        if source is not None:
            sources.append(source)
            todo |= (source.imports or frozenset()) - seen
    return sources


def _module(name: str, own_package: bool) -> Source | None:
    """The file of a module, as it was when it was loaded; None if it has none or does not count."""
    module = sys.modules.get(name)
    if module is not None and module in _LOADED:
        return _LOADED[module]
    spec = None if module else _spec(name)
    path = getattr(module, "__file__", None) if module else spec and spec.has_location and spec.origin
    if not path or not (own_package or is_own(path)):
        return None
    try:
        source = _source(path, Path(path).read_bytes(), name)
    except OSError:
        return None
    if module:
        _LOADED[module] = source
    return source


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is that is not loaded; loads nothing."""
    head = name.rpartition(".")[0]
    if not head:
        return PathFinder.find_spec(name)
    package = sys.modules.get(head)
    spec = None if package else _spec(head)
    places = getattr(package, "__path__", None) if package else spec and spec.submodule_search_locations
    return PathFinder.find_spec(name, list(places)) if places else None


def _source(path: str, content: bytes, name: str) -> Source:
    package = name if os.path.basename(path) == "__init__.py" else name.rpartition(".")[0]
    try:
        imports = _imports(ast.parse(content), package) if path.endswith(".py") else frozenset()
    except (SyntaxError, ValueError):
        imports = None
    return Source(path, hashlib.sha256(content).hexdigest(), imports)


def _imports(tree: ast.AST, package: str) -> frozenset[str] | None:
    """Names of the modules that code imports; None if it runs code in another way."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif _is_dynamic(node):
            return None
    pieces = [name.split(".") for name in names]
    return frozenset(".".join(piece[:end]) for piece in pieces for end in range(1, len(piece) + 1))


def _is_dynamic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in DYNAMIC | BUILTIN
    return isinstance(node, ast.Attribute) and node.attr in DYNAMIC


@cache
def _watch() -> None:
    """Note every file that code outside refemu opens, from now on."""
    sys.addaudithook(_opened)


def _opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | bytes) or arguments[2] & os.O_WRONLY:
        return
    path, code = os.fsdecode(arguments[0]), _opener(sys._getframe(1))
    if code and is_own(path) and not path.endswith(".pyc") and os.path.isfile(path):
        _OPENED.setdefault(code, set()).add(_digest(path))


def _opener(frame: FrameType | None) -> str | None:
    """The innermost code that is not installed; None if it is refemu's."""
    while frame:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            return None
        if is_own(path):
            return path
        frame = frame.f_back
    return None


def _digest(path: str) -> str:
    status = os.stat(path)
    return _content(os.path.abspath(path), (status.st_size, status.st_mtime_ns, status.st_ino))


@cache
def _content(path: str, stamp: tuple[int, ...]) -> str:
    """sha256 of a file, read once for each stamp."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
