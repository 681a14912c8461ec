"""Digest of what compiled code depends on: a kernel's instructions, and the functions and values that it reaches.

Comments, docstrings and line numbers are not part of it, so editing them compiles nothing.
"""

import dis
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

#: whose names mean the same as long as their version is the same, which names the cache's folder
VERSIONED = ("builtins", "math", "numba", "numpy", "llvmlite")


class Unknown(Exception):
    """A kernel reaches a value of which nothing says whether it changed."""


@functools.cache
def digest(kernel: Dispatcher) -> str:
    """Sha256 of all that the compiled form of `kernel` depends on. Unknown: if it reaches a value of another kind."""
    state = hashlib.sha256()
    for part in _parts(kernel, set()):
        state.update(part.encode() if isinstance(part, str) else part)
        state.update(b"\0")
    return state.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[str | bytes]:
    """A value as text and bytes, with what it reaches."""
    if isinstance(value, Dispatcher | _Intrinsic | types.FunctionType | types.ModuleType):
        if id(value) in seen:
            yield "seen"
            return
        seen.add(id(value))
    yield type(value).__qualname__
    if isinstance(value, Dispatcher):
        yield repr(sorted(value.targetoptions.items()))
        yield from _function(value.py_func, seen)
    elif isinstance(value, _Intrinsic):
        yield from _function(value._defn, seen)
    elif isinstance(value, types.FunctionType) and not _is_versioned(value.__module__):
        yield from _function(value, seen)
    elif isinstance(value, np.ndarray | np.generic):
        yield repr((value.dtype, value.shape, value.flags.c_contiguous, value.flags.f_contiguous))
        yield value.tobytes()
    elif isinstance(value, tuple):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, type) and issubclass(value, tuple):
        yield repr(getattr(value, "_fields", ()))
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes | np.dtype):
        yield repr(value)
    elif isinstance(value, types.ModuleType) and _is_versioned(value.__name__):
        yield value.__name__
    elif callable(value) and _is_versioned(getattr(value, "__module__", None) or type(value).__module__):
        yield getattr(value, "__name__", None) or repr(value)
    else:  # also a module within a module, whose attributes are not followed
        raise Unknown(repr(value))


def _function(function: Callable[..., Any], seen: set[int]) -> Iterator[str | bytes]:
    """The instructions of a function, its defaults, and the values of the names that it reads."""
    yield from _parts(function.__defaults__, seen)
    instructions, names = _code(function.__code__)
    yield instructions
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen)
    for module, name in names:
        if module and isinstance(function.__globals__.get(module), types.ModuleType):
            yield from _attribute(function.__globals__[module], name, seen)
        elif not module and not isinstance(function.__globals__.get(name), types.ModuleType | None):
            yield name
            yield from _parts(function.__globals__[name], seen)


def _attribute(module: types.ModuleType, name: str, seen: set[int]) -> Iterator[str | bytes]:
    yield f"{module.__name__}.{name}"
    if not _is_versioned(module.__name__):
        yield from _parts(getattr(module, name, None), seen)


@functools.cache
def _code(code: types.CodeType) -> tuple[bytes, list[tuple[str, str]]]:
    """Sha256 of instructions with what they name, not with its place in a table: a docstring is an entry of one.

    Then the globals that they read, as ("", name), and what they read of these, as (global, attribute).
    """
    state = hashlib.sha256(
        repr((code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_flags)).encode()
    )
    state.update(code.co_exceptiontable)
    names, before = set(), ""
    for step in dis.get_instructions(code):
        value = step.argval
        if isinstance(value, types.CodeType):
            value, inner = _code(value)
            names.update(inner)
        elif isinstance(value, frozenset):
            value = sorted(value, key=repr)
        state.update(f"{step.opname} {value!r}\n".encode())
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and before:
            names.add((before, value))
        before = value if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") else ""
        if before:
            names.add(("", before))
    return state.digest(), sorted(names)


def _is_versioned(module: str | None) -> bool:
    return (module or "").split(".")[0] in VERSIONED
