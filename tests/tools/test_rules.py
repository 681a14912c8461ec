"""Each rule of tools/rules sees a planted violation and lets its right neighbour pass; refemu itself has none."""

from pathlib import Path
from typing import Any

import pytest

from tools.rules import RULES, House, violations
from tools.rules.__main__ import ROOT, main
from tools.rules.pages import CLAIMS, OUTCOMES

DOC = '"""Twice x."""\n'
ORIZURU = "refemu/units/kllm/orizuru"
#: what planted modules import
HOUSE = dict.fromkeys(
    [
        *("refemu/arith/__init__.py", "refemu/arith/jit/__init__.py", "refemu/arith/kernels/__init__.py"),
        *("refemu/formats/kllm/kmeans.py", "refemu/formats/kllm/compiled/kmeans.py", "refemu/golden/files/sets.py"),
        *("refemu/draw/svg.py", "refemu/draw/olive/pair.py", "refemu/models/runtime.py", "refemu/cli/main.py"),
        *(f"{ORIZURU}/{name}.py" for name in ("__init__", "orizuru", "trees", "cases", "compiled")),
    ],
    DOC,
) | {
    "refemu/arith/fp16.py": "from refemu.arith import bits\n",
    "refemu/arith/bits.py": "def widths(x) -> list[int]: pass\ndef words(x): pass\n",
    "refemu/units/__init__.py": '_BLOCKS = {"olive": "planted"}\n',
}
OLIVE, KLLM, UNITS = "refemu/units/olive/planted.py", "refemu/units/kllm/planted.py", "refemu/units/planted.py"
TESTING, BITS, DECISIONS = "refemu/testing/__init__.py", "refemu/arith/bits.py", "docs/decisions-arith.md"
KERNEL = "@kernel\ndef f(x):\n    for i in range(3):\n        x = "
SCALAR = "from refemu.arith.kernels.scalars import T\n@kernel\ndef f(x):\n    return T[x]"
LATE = "def run():\n    "
SUM = (
    "from refemu.arith import bits\ndef lanes(x) -> int: pass\ndef index(x): pass\n"
    "def f(n: int, ints: Sequence[int], table: dict[str, int], floats: Sequence[float], x, y):\n    return sum({})"
)
JIT = "from refemu.units.kllm.orizuru import compiled as orizuru_jit"
CASES = "from refemu.units.kllm.orizuru import cases as orizuru_cases"
COMPILED_RUN = f"{LATE}from refemu.formats.kllm.compiled import kmeans"
DRAWN = "DRAWING = 'refemu.draw.olive.pair:decoder'"
RECORD = "@parameters(eq=False)\nclass Planted:\n    "
POST = f"{RECORD}def __post_init__(self):\n        "
ADD = 'def add(acc, acc_in):\n    """Add. {}: int32."""\n'
PARTS = {
    "first": "Multiply.",
    "parameters": "Parameters\n    ----------\n    x : int\n        Factor.",
    "returns": "Returns\n    -------\n    int\n        Product.",
    "raises": "Raises\n    ------\n    Refused\n        Below 0.",
    "references": "References\n    ----------\n    [olive §4.2]",
}


def multiply(**parts: str) -> str:
    """A public function of x that raises, some parts of whose docstring are changed."""
    text = "\n\n    ".join((PARTS | parts).values())
    return f'__all__ = ["f"]\ndef f(x: int) -> int:\n    """{text}\n    """\n    return require_int(x)\n'


def derived(method: str, base: str = "b = 1", decorator: str = "") -> str:
    """A public class with a method or field, and a base that is not public."""
    head = f'__all__ = ["S"]\nclass R:\n    """Base."""\n    {base}\n'
    return f'{head}{decorator}class S(R):\n    """A row."""\n    {method}\n'


def pinned(test: str, text: str = '"""D-arith-4."""') -> dict[str, str]:
    """A decision, the code that takes it and the test that its entry names."""
    page = f"### D-arith-4 Orders\nPinned by `tests/arith/test_sums.py::{test}`.\n"
    source = f"def test_order() -> None:\n    {text}\n    pass\n"
    return {DECISIONS: page, "refemu/arith/sums.py": "# D-arith-4\n", "tests/arith/test_sums.py": source}


ROW = "- 2: `tests/a.py::test_b`"  #: tests of the second row of a page of claims


def claimed(
    result: str, text: str, tests: str = ROW, name: str = "a claim", row: int = 2, more: int = 0
) -> dict[str, str]:
    """A claim of a paper, under a row that is right, and the test of both; more: too many in the index."""
    results = "".join(f"- **{each}**: so\n" for each in OUTCOMES)
    counts = " | ".join(str(more + ["reproduced", result].count(each)) for each in OUTCOMES)
    table = "| row | claim | place | result | refemu |\n|---|\n| 1 | b | §1 | reproduced | equal |"
    page = f"{table}\n| {row} | {name} | §1 | {result} | {text} |\n\n- 1: `tests/a.py::test_b`\n{tests}\n"
    index = f"| OliVe | {counts} |\n\n{results}"
    return {CLAIMS: index, "docs/claims-olive.md": page, "tests/a.py": "\ndef test_b(): pass"}


WHOLE = multiply().split("\n", 1)[1].replace("(x", "(self, x", 1).replace("\n", "\n    ")
SHORT = 'def {}(self, x: int) -> int:\n        """Add."""'
BRIEF = '__all__ = ["f"]\ndef f(x: np.ndarray) -> int:\n    """{}"""\n'

#: rule, violation, right neighbour, and where they are unless in arith
PLANTED: list[tuple[Any, ...]] = [
    ("blas", "y = a @ b", "y = dot.matmul(a, b, order=Sequential(), acc='fp32')"),
    ("blas", "y = np.dot(a, b)", "y = integers.dot(a, b)"),
    ("blas", "y = np.einsum('ij,jk', a, b)", "y = a * b"),
    ("blas", "y = np.linalg.norm(x)", "y = norm(x)"),
    ("transcendental", "y = x ** n", "y = 2**10"),
    ("transcendental", "y = np.exp(x)", "y = np.sqrt(x)"),
    ("transcendental", "from math import log2", "from math import isqrt"),
    ("transcendental", "y = math.cos(x)", "y = fp32.cos(x)"),
    *(
        ("float-sum", f"y = {wrong}", f"y = {right}")
        for wrong, right in (
            ("x.sum()", "np.cumsum(x)"),
            ("np.mean(x)", "np.max(x)"),
            ("math.fsum(x)", "math.prod(x)"),
            ("x.prod()", "x.prod(dtype=np.int64)"),
            ("np.sum(x)", "np.sum(x > 0)"),
            ("x.sum(dtype=np.float32)", "x.sum(axis=0, dtype=np.uint8)"),
            ("x.astype(np.float64).sum()", "x.astype(np.int32).sum()"),
            ("(x + 1).sum()", "(x & 1).sum()"),
        )
    ),
    *(
        ("float-sum", SUM.format(wrong), SUM.format(right), KLLM)
        for wrong, right in (
            ("x", "ints"),
            ("[1, 0.5]", "[1, len(x), ord(y), not x, ~x, -n]"),
            ("[n / 2]", "[n // 2, n % 2, abs(n), ints[0], table[x]]"),
            ("(v for v in y)", "(v > 0 for v in y)"),
            ("(v for v in floats)", "(v if x else max(ints) for v in ints)"),
            ("(v for v, w in ints)", "(v * 2 for v in range(3) for w in y)"),
            ("(v * x for v in ints)", "(v << x for v in y)"),
            ("map(f, ints)", "map(len, x)"),
            ("map(abs, ints)", "map(ord, x)"),
            ("(round(v, 2) for v in y)", "(int(v) for v in y)"),
            ("ints, 0.5", "ints, n"),
            ("ints, start=x", "sorted(ints)[1:], start=sum(ints)"),
            ("[np.floor(x)]", "[math.floor(x), np.count_nonzero(x)]"),
            ("(v.width for v in y)", "(v.size for v in y)"),
            ("(bits.words(v) for v in y)", "(lanes(v) for v in y)"),
            ("bits.words(x)", "bits.widths(x)"),
            ("y.values()", "table.values()"),
            ("(size for size in y)", "(ord(v) for v in y)"),
            ("(index(v) for v in y)", "(y.index(v) for v in x)"),
            ("map(index, ints)", "map(lanes, x)"),
        )
    ),
    ("unstable-sort", "y = np.argsort(x)", "y = np.argsort(x, kind='stable')"),
    ("unstable-sort", "y = np.sort(x, kind='quicksort')", "y = self.sort(x)"),
    ("unstable-sort", "y = np.argpartition(x, 3)", "y = text.partition(':')"),
    ("cast", "y = x.astype(np.float16)", "y = fp16.to_f16(x)"),
    ("cast", "y = np.rint(x).astype(np.int64)", "y = x.astype(np.int64)"),
    ("compiler", "f = numba.njit(g)", "f = kernel(g)"),
    ("compiler", "for i in prange(4): pass", "for i in range(4): pass"),
    ("compiler", "f = kernel(g, fastmath=True)", "f = kernel(g, inline=True)"),
    ("chance", "y = np.random.default_rng(0)", "y = prng.words('name', 0, 4)"),
    ("chance", "import random", "import refemu.random"),
    ("chance", "y = hash(name)", "y = digest.hash(name)"),
    ("clock", "from time import time", "from datetime import date"),
    ("set-order", "for x in {1, 2}: pass", "for x in sorted({1, 2}): pass"),
    ("set-order", "y = [x for x in set(values)]", "y = [x for x in list(values)]"),
    ("kernel-name", "from m import T\n@kernel\ndef f(x):\n    return T[x]", SCALAR),
    ("kernel-name", SCALAR.replace("arith.kernels.scalars", "models"), SCALAR),
    (
        "kernel-name",
        SCALAR.replace("arith.kernels.scalars", "models.schemes.kllm.cache"),
        SCALAR.replace("arith.kernels.scalars", "models.schemes.kllm.compiled.panels"),
    ),
    ("kernel-name", SCALAR.replace("arith.kernels.scalars", "units.olive.olive_mac.cases"), SCALAR),
    ("kernel-name", SCALAR.replace("arith.kernels.scalars", "units.olive.variants"), SCALAR),
    ("kernel-type", "@kernel\ndef f(x):\n    return np.float16(x)", "def f(x):\n    return np.float16(x)"),
    ("kernel-type", f"{KERNEL}1 if x else 2", "@kernel\ndef f(x):\n    return 1 if x else 2"),
    ("kernel-type", f"{KERNEL}x * 0.5", f"{KERNEL}x + np.float32(0.5)"),
    ("relative-import", "from . import bits", "from refemu.arith import bits"),
    ("third-party", "import numba", "import numpy"),
    ("third-party", f"{LATE}from hypothesis import given", f"{LATE}from numpy import given"),
    ("layers", f"{LATE}from refemu.golden.files import sets", f"{LATE}from refemu.arith import fp16", OLIVE),
    ("layers", "import_module('refemu.golden.files.sets')", "import_module('refemu.arith.fp16')", OLIVE),
    ("layers", "NAME = 'refemu.models.runtime:run'", DRAWN, OLIVE),
    ("layers", "from refemu.draw.olive import pair", DRAWN, OLIVE),
    ("layers", DRAWN, "NAME = 'refemu.arith.fp16:value'"),
    ("layers", "from refemu.checked_json import load", "from refemu.home import cache"),
    ("layers", "from refemu.draw import svg", "from refemu.arith import fp16", "refemu/models/planted.py"),
    ("layers", "from refemu.models import runtime", "from refemu.arith import fp16", "refemu/draw/planted.py"),
    ("layers", "from refemu.cli import main", "from refemu.draw import svg", "refemu/golden/planted.py"),
    ("layers", "from refemu.studies import a", "from refemu.arith import fp16", "refemu/models/planted.py"),
    (
        "layers",
        "from refemu.golden.files import sets",
        "from refemu.models import runtime",
        "refemu/studies/planted.py",
    ),
    ("papers", "from refemu.units.kllm import orizuru", "from refemu.arith import fp16", OLIVE),
    ("papers", f"{LATE}from refemu.formats.kllm.kmeans import KMeans", "KMEANS = 'kmeans'", OLIVE),
    ("papers", "NAME = 'refemu.units.kllm.orizuru.compiled:run'", "NAME = 'orizuru'", OLIVE),
    ("shared", "from refemu.units.kllm import orizuru", "from refemu.arith import fp16", UNITS),
    ("early-compiled", JIT, LATE + JIT, KLLM),
    ("early-compiled", "from refemu.arith.kernels import exp", f"{LATE}from refemu.arith.kernels import exp", KLLM),
    ("early-compiled", f"{LATE}from refemu.arith import jit", f"{LATE}from refemu.arith import fp16", KLLM),
    ("blocks", CASES, "from refemu.units.kllm import orizuru", "refemu/models/schemes/kllm/planted.py"),
    ("blocks", CASES, "from refemu.units.kllm import orizuru", "refemu/units/kllm/concat/cases.py"),
    ("blocks", "from refemu.units.kllm.orizuru.trees import T", "from refemu.units.kllm.orizuru import T", KLLM),
    ("blocks", "from refemu.units.kllm.orizuru.trees import T", "from refemu.arith import fp16", f"{ORIZURU}/cases.py"),
    ("circle", f"{LATE}from refemu.arith.fp16 import value", "NAME = 'refemu.arith.fp16'", BITS),
    ("circle", "if TYPE_CHECKING:\n    from refemu.arith.fp16 import value", "from refemu.arith import jit", BITS),
    ("bound-name", COMPILED_RUN, f"{COMPILED_RUN} as kmeans_compiled", KLLM),
    ("bound-name", CASES.replace("orizuru_cases", "orizuru"), CASES, KLLM),
    *(
        ("untested", {path: DOC}, {path: DOC, test: DOC}, path)
        for path, test in (
            ("refemu/formats/olive/ovp_planted.py", "tests/formats/olive/test_ovp_planted.py"),
            ("refemu/units/kllm/sorter/trees.py", "tests/units/kllm/test_sorter.py"),
            ("refemu/formats/kllm/compiled/planted.py", "tests/formats/kllm/test_planted.py"),
            ("refemu/golden/campaign/planted.py", "tests/golden/campaign/test_planted.py"),
        )
    ),
    ("docstring", "import ast", DOC),
    ("docstring", '"""What is twice x."""', DOC),
    ("docstring", f"{DOC}def f():\n    pass", f"{DOC}def _f():\n    pass"),
    ("docstring", f"{DOC}class C:\n    pass", f"{DOC}@overload\ndef f():\n    pass"),
    ("described", ADD.format("acc_innn"), ADD.format("acc_in")),
    ("described", ADD.format("acc, acc_innn"), ADD.format("acc, acc_in")),
    ("vague-name", f"{LATE}found = x", f"{LATE}x.found = g(made=x)"),
    ("vague-name", f"{LATE}made, y = x", f"{LATE}width, y = x"),
    ("vague-name", f"{LATE}y = [one for one in x]", f"{LATE}y = [each for each in x]"),
    ("vague-name", f"{LATE}y = lambda given: given", f"{LATE}y = lambda width: width"),
    ("vague-name", f"{LATE}if (told := x): pass", f"{LATE}if (width := x): pass"),
    ("vague-name", "def f(led): pass", "def f(leds): pass"),
    ("citation", DOC, '"""Twice x. [olive §4.2]"""', OLIVE),
    ("paper-in-arith", "# of OliVe", "# of olives"),
    ("exports-only", "x = 1", "from refemu.arith import bits\n__all__ = ['bits']", "refemu/arith/__init__.py"),
    ("plain-fields", f"{RECORD}width: int", f"{POST}plain_fields(self)"),
    (
        "plain-fields",
        f"{POST}check(self)\n        plain_fields(self)",
        f"{POST}plain_fields(self)\n        check(self)",
    ),
    ("folder", *({f"tests/a/{name}.py": DOC for name in range(count)} for count in (31, 30)), "tests/a"),
    ("uncalled-kernel", "@kernel\ndef f(x): pass", "@kernel\ndef f(x): pass\nf(1)", "refemu/arith/kernels/planted.py"),
    ("link", {"docs/a.md": "[b](b.md)"}, {"docs/a.md": "[b](../docs/b.md#c)", "docs/b.md": ""}, "docs/a.md"),
    ("table", {"docs/a.md": "# A\n\n| a |\n| b |\n"}, {"docs/a.md": "| a |\n|--:|\n| b |\n"}, "docs/a.md"),
    ("decision", pinned("test_order", "# D-arith-4"), pinned("test_order"), DECISIONS),
    ("decision", pinned("test_none"), pinned("test_order"), DECISIONS),
    (
        "decision",
        pinned("test_order") | {DECISIONS: "### D-arith-4 Orders\n# D-arith-4"},
        pinned("test_order"),
        DECISIONS,
    ),
    ("decision", pinned("test_order") | {"refemu/arith/sums.py": ""}, pinned("test_order"), DECISIONS),
    ("decision", "# D-arith-5", "# D-5"),
    *(
        ("claim", claimed(*wrong), claimed(*right), "docs/claims-olive.md")
        for wrong, right in (
            (("the paper agrees with itself", "equal"), ("reproduced", "equal")),
            (("reproduced", "equal", ""), ("not checkable", "Missing: a CNN. On SmolLM2 it is 3", "")),
            (
                ("reproduced", "equal", "- 2: `tests/a.py::test_c`"),
                ("reproduced", "equal", "- 2: `tests/a.py::test_b`"),
            ),
            (
                ("reproduced", "equal", "- 3: `tests/a.py::test_b`"),
                ("reproduced", "equal", "- 2: `tests/a.py::test_b`"),
            ),
            (("reproduced", "equal", ROW, "b"), ("reproduced", "equal", ROW, "c")),
            (("reproduced", "equal", ROW, "c", 3), ("reproduced", "equal", ROW, "c", 2)),
            (("reproduced", "equal", ROW, "c", 2, 1), ("reproduced", "equal", ROW, "c", 2, 0)),
            (("reproduced", "equal | more"), ("reproduced", "equal, more")),
            (("reproduced", "Factor: 2"), ("explained in part", "Factor: 2 of 4")),
            (("explained in part", "2 of 4"), ("reproduced", "2 of 4")),
            (("explained in part", "Factor: some"), ("explained in part", "Factor: 2")),
            (("not checkable", "a CNN", ""), ("not checkable", "Missing: a CNN", "")),
            (("not checkable", "Missing: ", ""), ("not checkable", "Missing: a")),
            (("same order", "SmolLM2: 1"), ("same order", "SmolLM2: 1 to 2")),
            (("same order", "1 ± 2"), ("same order", "SmolLM2: 1 ± 2")),
            (("contradicted", "SmolLM2: 7, not 8"), ("contradicted", "7, not 8")),
        )
    ),
    *(
        ("numpydoc", multiply(**parts), multiply(), TESTING)
        for parts in (
            *({part: ""} for part in ("first", "parameters", "returns", "raises")),
            {"first": "What is multiplied."},
            {"parameters": PARTS["parameters"].replace("x :", "y :")},
            {"parameters": PARTS["parameters"].replace(" : int", "")},
            {"parameters": PARTS["parameters"].replace("        Factor.", "")},
        )
    ),
    ("numpydoc", '__all__ = ["N"]\nN = 4', '__all__ = ["N"]\nN = 4  #: lanes', TESTING),
    *(
        ("numpydoc", derived("a: int", decorator=record), derived("a: int  #: sum", decorator=record), TESTING)
        for record in ("@dataclass\n", "@parameters(eq=False)\n")
    ),
    ("numpydoc", derived("@property\n    def a(self): pass"), derived("def _a(self): pass"), TESTING),
    ("numpydoc", derived("b = 1", "def g(self): pass"), derived("b = 1", "def _g(self): pass"), TESTING),
    ("numpydoc", derived(SHORT.format("g"), WHOLE), derived(SHORT.format("f"), WHOLE), TESTING),
    ("numpydoc", BRIEF.format("Add."), BRIEF.format("Add x (4,). [olive §4.2]"), OLIVE),
    ("reference", BRIEF.format("Add x (4,)."), BRIEF.format("Add x (4,). [olive §4.2]"), OLIVE),
    ("reference", multiply(references=""), multiply(), OLIVE),
    ("open-type", multiply().replace("x: int", "x: Any"), multiply(), TESTING),
    ("open-type", derived("def f(self) -> Any: pass"), derived("def f(self) -> int: pass"), TESTING),
]


def broken(rule: str, files: str | dict[str, str], path: str) -> set[str]:
    """The files in which a house with more files breaks a rule."""
    return {
        place for place, _, _ in RULES[rule].check(House(HOUSE | ({path: files} if isinstance(files, str) else files)))
    }


@pytest.mark.parametrize("row", PLANTED, ids=[f"{row[0]}-{at}" for at, row in enumerate(PLANTED)])
def test_rule_sees_a_violation_and_passes_its_neighbour(row: tuple[Any, ...]) -> None:
    rule, violation, neighbour, path = (*row, "refemu/arith/planted.py")[:4]

    assert path in broken(rule, violation, path)
    assert path not in broken(rule, neighbour, path)


def test_definition_is_found_through_several_stars() -> None:
    front = "from refemu.units.kllm.orizuru.trees import *\nfrom refemu.units.kllm.orizuru.orizuru import *\n"
    house = House(HOUSE | {f"{ORIZURU}/__init__.py": front, f"{ORIZURU}/orizuru.py": "def run(): pass\n"})
    found = house.definition(house.front("refemu.units.kllm.orizuru"), "run")
    assert found is not None
    assert found[0].name == "refemu.units.kllm.orizuru.orizuru"


def test_every_rule_has_a_planted_violation() -> None:
    assert {row[0] for row in PLANTED} == RULES.keys()


def test_the_repository_breaks_no_rule() -> None:
    assert [str(each) for each in violations(House.read(ROOT))] == []


def test_exception_that_nothing_needs_is_seen(tmp_path: Path) -> None:
    texts = {"refemu/arith/casts.py": "y = x.astype(np.float16)\n", "refemu/arith/exact.py": "import time\n"}
    lines = [str(each) for each in violations(House(texts, tmp_path))]

    assert not any("cast to float16" in line for line in lines)
    assert any("nothing needs the exception of njit in arith/jit/__init__.py; delete it" in line for line in lines)
    assert any(line.startswith("refemu/arith/exact.py:1: clock: module time; pass the time in") for line in lines)


def test_command_prints_violations_below_its_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, line in (("a", "import time\n"), ("b", "import random\n")):
        (tmp_path / "refemu" / "cli" / name).mkdir(parents=True)
        (tmp_path / "refemu" / "cli" / name / "planted.py").write_text(f"{DOC}\n{line}")
    monkeypatch.chdir(tmp_path)

    assert main(["--root", ".", "refemu/cli/a"]) == 1
    assert [line.split("; ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "refemu/cli/a/planted.py:1: untested: no test module",
        "refemu/cli/a/planted.py:3: clock: module time",
    ]
    with pytest.raises(SystemExit, match="2"):
        main(["--root", ".", "refemu/none.py"])


def test_command_lists_rules_in_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(RULES) and all(line.endswith(".") for line in lines)
