"""Trace a command of refemu: functions and files of the package that it enters, and calls that a reader cannot follow.

    python tools/walk.py [--tree TREE] [--json] -- COMMAND ...
    python tools/walk.py -- generate --unit ovp_decoder --kinds paper -o /tmp/set

Runs `python -m refemu COMMAND` in this process, or with --tree in another one on the package in TREE. Imports,
compilation of kernels and comprehensions do not count. depth: largest number of active functions of the package. A hop
is a call from one file to another, named by the functions at its ends. It is blind if the calling function mentions
neither the called one's name, nor its class if it makes an object, nor another name of it in the module: an editor then
cannot go to the definition. Calls by syntax (`__len__`, `__enter__`, generators in a loop) are never blind;
`__getattr__` and `__call__` always are.
"""

import argparse
import contextlib
import functools
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

UNCOUNTED = {"<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
INNER = re.compile(r"\.<locals>\.<(listcomp|setcomp|dictcomp|genexpr)>")
HIDING = {
    "__getattr__",
    "__getattribute__",
    "__call__",
    "__init__",
    "__new__",
}  #: methods called by syntax that names others


@dataclass
class Walk:
    """The calls below one folder. Give `call` to `sys.setprofile`."""

    folder: str
    functions: set[CodeType] = field(default_factory=set)
    hops: dict[tuple[str, str], bool] = field(default_factory=dict)  #: whether a hop is blind
    depth: int = 0

    def call(self, frame: FrameType, event: str, _: Any) -> None:
        """Record the call that enters `frame`."""
        code = frame.f_code
        if event != "call" or code.co_name in UNCOUNTED or not below(code.co_filename, self.folder):
            return
        active = list(self.active(frame))
        if any(imports(each) for each in active) or compiles(frame):
            return
        self.functions.add(code)
        self.depth = max(self.depth, sum(each.f_code.co_name not in UNCOUNTED for each in active))
        if len(active) > 1 and active[1].f_code.co_filename != code.co_filename:
            hop = self.name(active[1].f_code), self.name(code)
            self.hops[hop] = self.hops.get(hop, True) and blind(active[1], code)

    def active(self, frame: FrameType | None) -> Iterator[FrameType]:
        """Frames of the package from `frame` outwards."""
        while frame:
            if below(frame.f_code.co_filename, self.folder):
                yield frame
            frame = frame.f_back

    def name(self, code: CodeType) -> str:
        """`file:function`; a comprehension has the name of its function."""
        return f"{below(code.co_filename, self.folder)}:{INNER.sub('', code.co_qualname)}"

    def report(self) -> dict[str, Any]:
        """The numbers, with the names after them."""
        names = sorted(map(self.name, self.functions))
        files = {code.co_filename for code in self.functions}
        numbers = {"functions": len(names), "files": len(files), "depth": self.depth, "hops": len(self.hops)}
        return numbers | {
            "blind": sorted(" -> ".join(hop) for hop, hidden in self.hops.items() if hidden),
            "met": names,
        }


@functools.cache
def below(file: str, folder: str) -> str:
    """The path of a file below the folder, or ""."""
    return os.path.relpath(file, folder) if file.startswith(folder + os.sep) else ""


def imports(frame: FrameType) -> bool:
    """Whether a module is being imported, except the command's own."""
    return frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__"


def compiles(frame: FrameType) -> bool:
    """Whether numba made the call: it runs functions of its extensions to compile a kernel."""
    return frame.f_back is not None and frame.f_back.f_globals.get("__name__", "").startswith("numba.")


def blind(caller: FrameType, code: CodeType) -> bool:
    """Whether nothing in the calling function refers to the called one."""
    name, mentioned = code.co_name, mentions(caller.f_code)
    wanted = code.co_qualname.split(".")[-2] if name in ("__init__", "__new__") else name
    syntax = name.startswith("__") and name not in HIDING
    if syntax or code.co_flags & CO_GENERATOR or {name, wanted} & mentioned - {"__call__"}:
        return False
    bound = [caller.f_globals.get(other) for other in mentioned]
    return not any(getattr(getattr(value, name, value), "__code__", None) is code for value in bound)


@functools.cache
def mentions(code: CodeType) -> frozenset[str]:
    """Names that a function reads, with its attributes, imports and inner functions, without parameters."""
    inner = (mentions(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(code.co_names).union(*inner)


def trace(words: list[str]) -> dict[str, Any]:
    """Run `python -m refemu words` in this process and report it. The command writes to stderr."""
    walk = Walk(importlib.import_module("refemu").__path__[0])
    argv = mock.patch.object(sys, "argv", ["refemu", *words])
    out = os.fdopen(os.dup(2), "w")  # the command detaches both streams, so they must be two
    with argv, contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        threading.setprofile(walk.call)
        sys.setprofile(walk.call)
        runpy.run_module("refemu", run_name="__main__", alter_sys=True)
    sys.setprofile(None)
    return walk.report()


def main(words: list[str]) -> int:
    """Print the report; with --tree from another process, with the package of the tree."""
    options = argparse.ArgumentParser(prog="python tools/walk.py")
    options.add_argument("--tree", type=Path, help="a folder with another refemu/")
    options.add_argument("--json", action="store_true", help="one JSON object, with every function entered")
    options.add_argument("command", nargs="+", help="arguments of `refemu`")
    arguments = options.parse_args(words)
    if arguments.tree:
        words = [*["--json"] * arguments.json, "--", *arguments.command]
        environment = os.environ | {"PYTHONPATH": str(arguments.tree.resolve())}
        return subprocess.run([sys.executable, __file__, *words], env=environment, check=False).returncode
    report = trace(arguments.command)
    numbers = [f"{name} {value}" for name, value in report.items() if isinstance(value, int)]
    text = "\n  ".join([f"{', '.join(numbers)}, blind {len(report['blind'])}", *report["blind"]])
    print(json.dumps(report, indent=1) if arguments.json else text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
