"""The lowest layer as a whole: what it says of itself, what it may import, which of its modules compile."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import refemu.arith
from tests import house_rules

FOLDER = Path(refemu.arith.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
FILES = sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*.py"))
PAPER = re.compile(r"\b(olive|kllm|harmonia|leankv)\b", re.IGNORECASE)
#: a kernel of the papers that group elements
OF_A_PAPER = {"float_jit/groups.py"}
TWINS = [name for name in MODULES if name.endswith("_jit") and name != "float_jit"]
COMPILED = ["jit", "float_jit", *TWINS]  #: what may bring numba
ALONE = {"fp16": {"mode"}, "dot": {"threads"}}  #: arguments that only one of two twins has: IEEE is what compiles


def test_it_holds_nothing_itself() -> None:
    """A docstring, imports and the list of what is public."""
    docstring, *imports, public = ast.parse((FOLDER / "__init__.py").read_text()).body

    assert isinstance(docstring, ast.Expr) and isinstance(public, ast.Assign)
    assert ast.unparse(public.targets[0]) == "__all__"
    assert {type(node) for node in imports} == {ast.ImportFrom}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_module_imports_nothing_above_it(path: Path) -> None:
    """Formats, units and models stand on `arith`, never the other way round."""
    assert house_rules.layers((FOLDER / path).read_text()) <= {"arith", "home"}  # home: where the user keeps things


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_module_names_no_paper(path: Path) -> None:
    """An operation that only one paper's format needs belongs to that format."""
    source = (FOLDER / path).read_text()

    assert bool(PAPER.search(source)) == (path.as_posix() in OF_A_PAPER)


def test_readable_modules_bring_no_compiler() -> None:
    names = ", ".join(f"refemu.arith.{name}" for name in MODULES if name not in COMPILED)
    code = f"import {names}; import sys; print(sorted({{'numba', 'llvmlite', 'scipy'}} & set(sys.modules)))"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_the_names_and_arguments_of_the_readable_forms(name: str) -> None:
    """A caller exchanges one module for the other and nothing else."""
    readable = importlib.import_module(f"refemu.arith.{name.removesuffix('_jit')}")
    twin = importlib.import_module(f"refemu.arith.{name}")
    own = [each for each, f in vars(twin).items() if inspect.isfunction(f) and f.__module__ == twin.__name__]
    shared = [each for each in own if not each.startswith("_") and hasattr(readable, each)]
    alone = ALONE.get(name.removesuffix("_jit"), set())

    assert shared
    for each in shared:
        ours, theirs = (inspect.signature(getattr(module, each)).parameters for module in (readable, twin))
        assert ours.keys() - alone == theirs.keys() - alone, each
        assert all(ours[key].kind == theirs[key].kind and ours[key].default == theirs[key].default
                   for key in ours.keys() & theirs.keys()), each  # fmt: skip
