"""The determinism policy holds for every module of the package, and every rule is able to fail."""

from pathlib import Path

import pytest

from tests.syntax_rules import violations

PACKAGE = Path(__file__).resolve().parent.parent / "refemu"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

#: (module, rule): why the construct is right there
EXCEPTIONS = {
    ("arith/casts.py", "cast to float16"): "the one place that casts",
    ("arith/jit/__init__.py", "njit"): "the one place that compiles",
    ("arith/rotary.py", "operator **"): "signs of rational coefficients, in Python integers",
    ("studies/perplexity.py", "library function exp"): "a figure in a report, never a vector",
    ("studies/perplexity.py", "library function log"): "a figure in a report, never a vector",
    ("studies/uncertainty.py", "library function exp"): "a figure in a report, never a vector",
    ("studies/uncertainty.py", "library function expm1"): "a figure in a report, never a vector",
    ("studies/evaluation.py", "library function exp"): "a figure in a report, never a vector",
    ("studies/output/plot.py", "operator **"): "the limits of an axis, never a vector",
    ("studies/output/scores.py", "library function exp"): "a figure in a report, never a vector",
    ("studies/steps.py", "module time"): "how long a study will take, never a vector",
    ("studies/leankv/figures.py", "library function log10"): "a figure in a report, never a vector",
    ("cli/progress.py", "module time"): "lines of progress, never a vector",
    ("studies/accuracy.py", "operator @"): "fits the probe, a figure in a report, never a vector",
    ("studies/accuracy.py", "linalg of a library"): "fits the probe, a figure in a report, never a vector",
    ("models/encoder/plain_float.py", "operator @"): "plain float32, which a report compares schemes with",
    ("models/encoder/plain_float.py", "reduction mean"): "plain float32, which a report compares schemes with",
    ("models/encoder/plain_float.py", "reduction sum"): "plain float32, which a report compares schemes with",
    ("models/encoder/plain_float.py", "library function exp"): "plain float32, which a report compares schemes with",
    ("models/encoder/plain_float.py", "library function erf"): "plain float32, which a report compares schemes with",
    ("models/schemes/harmonia/search.py", "library function exp2"): "places a search passes; what it finds is data",
    ("models/schemes/harmonia/search.py", "library function log2"): "where a search begins; what it finds is data",
    ("formats/kllm/twins/kmeans.py", "ternary in a kernel loop"): "registers chosen by comparisons, of integers",
    ("models/weights/digests.py", "module time"): "whether a file changed too lately to be remembered, never a vector",
    ("cli/unit_rows.py", "module time"): "whether a source changed too lately for that, never a vector",
    ("models/machine/runner.py", "module time"): "seconds of preparation in a report, never a vector",
    ("cli/grade.py", "module time"): "seconds of a report, never a vector",
    ("golden/grade/executed.py", "module time"): "how long a mutant may take before it counts as one that does not end",
    ("golden/serve/server.py", "module time"): "how long a request is looked for before the process sleeps",
    ("golden/serve/predictor.py", "module time"): "which of two equal forms answers sooner, never a bit of the answer",
    ("units/harmonia/bfp_pe_array_clocked/cases.py", "builtin sum"): "a mask of columns, of Python's integers",
    ("golden/explain/running.py", "module time"): "how large a sample a slow device leaves time for, never a vector",
    ("golden/explain/search.py", "module time"): "how long slow devices are tried for an explanation, never a vector",
    ("golden/explain/verdict.py", "module time"): "how many rows of a large set a verdict reaches, which it says",
    ("arith/integers.py", "operator @"): "BLAS on integers below 2**24 or 2**53: every partial sum is exact",
    ("arith/integers.py", "reduction sum"): "`total`, the one integer sum: int64 after a bound check",
}

BAD = {
    "operator @": "y = a @ b",
    "operator **": "y = x ** n",
    "dot of a library": "y = np.dot(a, b)",
    "einsum of a library": "y = np.einsum('ij,jk', a, b)",
    "linalg of a library": "y = np.linalg.norm(x)",
    "reduction sum": "y = x.sum()",
    "reduction mean": "y = np.mean(x)",
    "builtin sum": "y = sum(values)",
    "library function exp": "y = np.exp(x)",
    "library function log2": "from math import log2",
    "library function cos": "y = math.cos(x)",
    "argsort that is not stable": "y = np.argsort(x)",
    "sort that is not stable": "y = np.sort(x, kind='quicksort')",
    "argpartition": "y = np.argpartition(x, 3)",
    "cast to float16": "y = x.astype(np.float16)",
    "cast of a float to an integer": "y = np.rint(x).astype(np.int64)",
    "njit": "f = numba.njit(g)",
    "prange": "for i in prange(4): pass",
    "fastmath or parallel": "f = kernel(g, fastmath=True)",
    "np.random": "y = np.random.default_rng(0)",
    "module random": "import random",
    "module time": "from time import time",
    "iteration over a set": "for x in {1, 2}: pass",
    "hash()": "y = hash(name)",
    "relative import": "from . import bits",
    "kernel reads T from outside its file": "from m import T\n@kernel\ndef f(x):\n    return T[x]",
    "float16 in a kernel": "@kernel\ndef f(x):\n    return np.float16(x)",
    "ternary in a kernel loop": "@kernel\ndef f(x):\n    for i in range(3):\n        x = 1 if x else 2",
    "bare float literal in a kernel loop": "@kernel\ndef f(x):\n    for i in range(3):\n        x = x * 0.5",
}

GOOD = [
    "y = 2**10",
    "y = np.sort(x, kind='stable')",
    "y = np.cumsum(x)",
    "for x in sorted({1, 2}): pass",
    "y = np.sqrt(x)",
    "y = x.astype(np.int64)",
    "y = dot.matmul(a, b, order=Sequential(), acc='fp32')",
    "S = 3\n@kernel\ndef f(x):\n    for i in range(S):\n        x = x + np.float32(0.5)\n    return x",
]


def test_modules_follow_the_rules_for_bits() -> None:
    found = [(module, item) for module in MODULES for item in violations((PACKAGE / module).read_text(), module)]

    assert [(module, item) for module, item in found if (module, item.rsplit(" at ", 1)[0]) not in EXCEPTIONS] == []


@pytest.mark.parametrize("rule", BAD)
def test_rule_catches_its_bad_snippet(rule: str) -> None:
    assert rule in [item.rsplit(" at ", 1)[0] for item in violations(BAD[rule])]


def test_kernels_take_names_from_layers_with_kernels_only() -> None:
    """Cases and variants must not decide what compiled code does."""
    source = "from refemu.arith.float_jit.scalars import T\n@kernel\ndef f(x):\n    return T[x]"

    assert violations(source) == []
    for unhashed in ("refemu.models", "refemu.units.olive.olive_mac.cases", "refemu.units.olive.variants"):
        planted = source.replace("refemu.arith.float_jit.scalars", unhashed)
        assert violations(planted) == ["kernel reads T from outside its file at line 4"]


@pytest.mark.parametrize("source", GOOD)
def test_allowed_constructs_pass(source: str) -> None:
    assert violations(source) == []


def test_every_exception_is_still_needed() -> None:
    used = {
        (module, item.rsplit(" at ", 1)[0])
        for module in MODULES
        for item in violations((PACKAGE / module).read_text(), module)
    }

    assert set(EXCEPTIONS) - used == set()
