"""Schemes in a Python file of the user: `path/to/file.py:NAME`, a configuration or its class.

The file runs once for each of its contents. A file that raises, prints or exits when it is imported is rejected.
"""

import contextlib
import hashlib
import io
import sys
import traceback
import types
from pathlib import Path

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.reader_errors import contents
from refemu.models.schemes import own_code
from refemu.models.schemes.scheme import Scheme

SUFFIX = ".py"
LONGEST = 1 << 20  #: largest file in bytes
PREFIX = "refemu_scheme_"  #: start of the names of imported modules

_PATHS: dict[str, str] = {}  #: path that was given, by name of the module


def is_named(word: str) -> bool:
    """Whether a word has the form FILE.py:NAME."""
    path, _, name = word.partition(":")
    return path.endswith(SUFFIX) and name.isidentifier()


def load(path: str, name: str) -> Scheme:
    """The configuration `name` of a file; a class is called without arguments.

    Raises Refused for a file that cannot be read or imported, or that lacks the name, and RefusedType for a name that
    is not a scheme.
    """
    module = _imported(path)
    there = {key: each for key, each in vars(module).items() if _is_scheme(each, module)}
    if name not in there and name in vars(module):
        got = type(vars(module)[name]).__name__
        raise RefusedType(f"scheme file {path}: {name} must be a models.LinearScheme or another Scheme, got {got}")
    named = lookup(f"scheme of {path}:", name, there)
    if isinstance(named, Scheme):
        return named
    if "__dataclass_params__" not in vars(named):
        raise RefusedType(f"scheme file {path}: put @dataclass(frozen=True) above class {name}")
    try:
        config: Scheme = named()
    except Exception as error:
        raise Refused(f"scheme file {path}: {name}() does not work without arguments: {_said(error)}") from error
    return config


def spec(scheme: Scheme) -> tuple[str, Scheme] | None:
    """`path:NAME` of a configuration from a file, and the configuration that it names; None for others.

    NAME is that of an equal configuration of the file, else of the class, else of another configuration.
    """
    home, kind = type(scheme).__module__, type(scheme)
    if home not in _PATHS:
        return None
    there = {key: each for key, each in vars(sys.modules[home]).items() if type(each) is kind}
    with contextlib.suppress(TypeError):  # a class that needs arguments
        there.setdefault(kind.__name__, kind())
    name = min(there, key=lambda key: (there[key] != scheme, key != kind.__name__))
    return f"{_PATHS[home]}:{name}", there[name]


def _imported(path: str) -> types.ModuleType:
    """The module of a file, made once for each of its contents."""
    try:
        source = contents(Path(path), LONGEST, f"scheme file {path}")
    except OSError as error:
        raise Refused(f"scheme file {path}: {error.strerror or error}") from None
    name = PREFIX + hashlib.sha256(str(Path(path).resolve()).encode() + b"\0" + source).hexdigest()[:16]
    if name not in _PATHS:
        module = types.ModuleType(name)
        module.__file__ = path
        sys.modules[name] = module  # dataclasses and annotations look the module up
        own_code.loads(module, source)
        try:
            _run(path, source, module)
        except BaseException:
            del sys.modules[name]
            raise
    _PATHS[name] = path
    return sys.modules[name]


def _run(path: str, source: bytes, module: types.ModuleType) -> None:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, path, "exec"), vars(module))  # the user asks for it
    except KeyboardInterrupt:
        raise
    except SystemExit:
        raise Refused(
            f'scheme file {path}: exits when imported; put what runs under if __name__ == "__main__"'
        ) from None
    except BaseException as error:  # the user's code may raise anything
        raise Refused(f"scheme file {path}: does not load: {_said(error)}{_line(error, path)}") from error
    if printed.getvalue():
        shown = printed.getvalue()[:40]
        raise Refused(
            f'scheme file {path}: prints when imported, got {shown!r}; put what prints under if __name__ == "__main__"'
        )


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _line(error: BaseException, path: str) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" (line {lines[-1]})" if lines else ""


def _is_scheme(each: object, module: types.ModuleType) -> bool:
    """Whether an object is a configuration, or a class of them that the module defines."""
    if isinstance(each, type):
        return issubclass(each, Scheme) and each.__module__ == module.__name__
    return isinstance(each, Scheme)
