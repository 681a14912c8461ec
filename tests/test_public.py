"""What refemu exports: imported when used, with equal signatures of readable and compiled forms, all described."""

import importlib
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docstring_parser
import pytest

import refemu
from refemu import units
from tools.rules.imports import KINDS
from tools.rules.public import CITATION


@pytest.mark.parametrize(
    "code",
    [
        "import sys, refemu\n"
        "assert {'formats', 'units', 'models', 'golden'} <= set(dir(refemu)) and 'numpy' not in sys.modules\n"
        "assert refemu.formats.INT4.width == 4 and refemu.__version__ and not hasattr(refemu, 'nothing')\n",
        "import sys, refemu.arith, refemu.formats, refemu.units, refemu.models, refemu.golden, refemu.cli\n"
        "assert not {'numba', 'scipy', 'hypothesis', 'rich'} & set(sys.modules)\n",
    ],
    ids=["layers", "libraries"],
)
def test_layers_and_libraries_are_imported_on_use(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def arguments(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Kinds and defaults of parameters, in order."""
    return {name: (each.kind, each.default) for name, each in inspect.signature(function).parameters.items()}


def test_units_have_compiled_forms_with_the_same_arguments() -> None:
    for name in units.names():
        unit = units.find(name)
        assert unit.name == name and unit.paper.startswith(units.PAPERS[name])
        assert list(arguments(unit.run).items()) == list(arguments(unit.run_compiled).items()), name


def test_compiled_forms_have_the_defaults_of_readable_ones() -> None:
    """Of parameters of both: a compiled form may have some of its own, such as threads."""
    pairs = []
    for info in pkgutil.walk_packages(refemu.__path__, "refemu."):
        name = info.name.replace(".compiled.", ".").removesuffix(".compiled")
        if name != info.name and importlib.util.find_spec(name):
            forms = [importlib.import_module(each) for each in (info.name, name)]
            names = sorted(vars(forms[0]).keys() & vars(forms[1]).keys())
            pairs += [
                pair for each in names if all(map(inspect.isfunction, pair := [vars(form)[each] for form in forms]))
            ]
    differing = []
    for compiled, readable in pairs:
        left, right = arguments(compiled), arguments(readable)
        wrong = [name for name in left.keys() & right.keys() if left[name][1] != right[name][1]]
        differing += [f"{compiled.__module__}.{compiled.__name__}: {name}" for name in wrong]

    assert differing == [] and len(pairs) > 20


def test_units_made_of_one_another_share_their_defaults() -> None:
    """layer_step hands options on to page_manager; numbers of heads and pages are its own."""
    layer, manager = (arguments(units.find(name).unit_class) for name in ("layer_step", "page_manager"))
    assert {name for name in layer.keys() & manager.keys() if layer[name][1] != manager[name][1]} <= {"heads", "pages"}


def test_the_table_of_units_names_every_block() -> None:
    """And nothing else: what blocks share is in folders of its own."""
    folder = Path(units.__file__).parent
    places = [place for paper in {*units.PAPERS.values()} for place in (folder / paper).iterdir()]
    blocks = {place.stem: place.parent.name for place in places if place.name[0] != "_" and place.name not in KINDS}

    assert blocks == units.PAPERS


def test_derived_runs_describe_their_signatures() -> None:
    """The docstring of `run` follows from ports and parameters; of what is written, tools/rules checks the same."""
    for name in units.names():
        run = units.find(name).run
        parsed = docstring_parser.parse(inspect.getdoc(run) or "", docstring_parser.DocstringStyle.NUMPYDOC)
        described = [part for each in parsed.params for part in each.arg_name.split(", ")]
        assert parsed.short_description and described == [*inspect.signature(run).parameters], name
        assert all(each.type_name and each.description for each in (*parsed.params, *parsed.many_returns)), name
        assert parsed.many_returns and parsed.raises and CITATION.search(run.__doc__ or ""), name
