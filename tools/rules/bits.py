"""Rules that protect bits: no library, processor or random choice decides one.

A syntax tree has no dtypes, so a rule forbids a name wherever it could be applied to floats; tools/rules/exceptions.py
lists where one is right.
"""

import ast
import re
from collections.abc import Iterator

from tools.rules.house import Found, Module, last_of, module_rule, root_of, stored

NUMERIC_MODULES = {"np", "numpy", "math", "scipy", "special", "cmath"}
PRODUCTS = {"dot", "matmul", "inner", "vdot", "einsum", "tensordot", "convolve", "correlate", "linalg"}
TRANSCENDENTAL = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "power", "float_power", "cbrt", "hypot"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arctan2"),
    *("asin", "acos", "atan", "atan2", "erf", "erfc", "gamma", "lgamma", "expit", "logsumexp"),
}
INTEGER_TYPES = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int"}
ROUNDED = {"rint", "floor", "ceil", "trunc", "round"}
KERNEL_GLOBALS = {"np", "range", "len", "min", "max", "abs"}
#: modules whose names kernels may use, except files of the second pattern
HASHED = re.compile(r"refemu\.(arith|formats|units|models\.schemes\.\w+\.compiled)\b")
UNHASHED = re.compile(r"\.(cases|variants)\b")


@module_rule("use refemu.arith.dot, or refemu.arith.integers for integers")
def blas(module: Module) -> Found:
    """No product of a library: BLAS has its own order of additions."""
    for node in module.of(ast.BinOp, ast.AugAssign):
        if isinstance(node.op, ast.MatMult):
            yield node.lineno, "operator @"
    for node in module.of(ast.Attribute):
        if node.attr == "linalg":
            yield node.lineno, "linalg of a library"
    for node, name, owner in module.calls:
        if name in PRODUCTS and owner in NUMERIC_MODULES | {"ops"}:
            yield node.lineno, f"{name} of a library"


@module_rule("use refemu.arith.fp32 or fp16; of integers write 1 << n")
def transcendental(module: Module) -> Found:
    """No exponential, logarithm, power or angle of a library: their last bits differ."""
    for node in module.of(ast.BinOp, ast.AugAssign):
        match node:
            case ast.BinOp(ast.Constant(int()), _, ast.Constant(int())):
                pass
            case ast.BinOp(op=ast.Pow()) | ast.AugAssign(op=ast.Pow()):
                yield node.lineno, "operator **"
    for node, name, owner in module.calls:
        if name in TRANSCENDENTAL and owner in NUMERIC_MODULES:
            yield node.lineno, f"library function {name}"
    for node in module.of(ast.ImportFrom):
        names = [each.name for each in node.names if node.module in {"math", "numpy", "scipy.special"}]
        yield from ((node.lineno, f"library function {name}") for name in names if name in TRANSCENDENTAL)


@module_rule("use np.sort or np.argsort with kind='stable'")
def unstable_sort(module: Module) -> Found:
    """Sorts are stable, so that equal values keep their order."""
    for node, name, owner in module.calls:
        stable = any(ast.unparse(each) == "kind='stable'" for each in node.keywords)
        itself = owner is None or ast.unparse(node.func) == "self.sort"  # refemu's own
        if name in {"argsort", "sort"} and not (stable or itself):
            yield node.lineno, f"{name} that is not stable"
        if (owner in NUMERIC_MODULES and name == "partition") or (owner is not None and name == "argpartition"):
            yield node.lineno, name


@module_rule("use refemu.arith.casts or fp16")
def cast(module: Module) -> Found:
    """Floats become float16 or integers by functions of refemu.arith, which say how they round."""
    for node, name, _ in module.calls:
        if name == "astype" and _names(node, {"float16", "f2", "<f2", "half"}):
            yield node.lineno, "cast to float16"
        if name == "astype" and _names(node, INTEGER_TYPES):
            match node.func:
                case ast.Attribute(ast.BinOp(op=ast.Div())):
                    yield node.lineno, "cast of a float to an integer"
                case ast.Attribute(ast.Call() as receiver) if last_of(receiver) in ROUNDED:
                    yield node.lineno, "cast of a float to an integer"


@module_rule("use `kernel` of refemu.arith.jit")
def compiler(module: Module) -> Found:
    """Kernels are compiled in one way, without fastmath and numba's threads."""
    for node, name, _ in module.calls:
        if name in {"njit", "jit", "vectorize", "guvectorize", "prange"}:
            yield node.lineno, name
        if {"fastmath", "parallel"} & {keyword.arg for keyword in node.keywords}:
            yield node.lineno, "fastmath or parallel"


@module_rule("use refemu.arith.prng, or a digest of hashlib")
def chance(module: Module) -> Found:
    """No random numbers of a library and no hash(), which differs from process to process."""
    for node in module.of(ast.Attribute):
        if node.attr == "random" and root_of(node) in {"np", "numpy"}:
            yield node.lineno, "np.random"
    yield from _imported(module, "random")
    yield from ((node.lineno, "hash()") for node, name, owner in module.calls if (name, owner) == ("hash", None))


@module_rule("pass the time in, or list the reason in tools/rules/exceptions.py")
def clock(module: Module) -> Found:
    """No clock decides anything but reports and limits."""
    yield from _imported(module, "time")


@module_rule("iterate over sorted(...)")
def set_order(module: Module) -> Found:
    """No iteration over a set, whose order differs from process to process."""
    for node in module.of(ast.For, ast.comprehension):
        match node.iter:
            case ast.Set() | ast.SetComp() | ast.Call(ast.Name("set" | "frozenset")):
                yield node.iter.lineno, "iteration over a set"


@module_rule("import from refemu.arith, formats or units, not cases or variants, or define it in this file")
def kernel_name(module: Module) -> Found:
    """A kernel reads only what the key of its compiled code covers."""
    known = KERNEL_GLOBALS | module.defined.keys()
    known |= {
        name for name, (place, _) in module.imported.items() if HASHED.match(place) and not UNHASHED.search(place)
    }
    for function in kernels(module):
        local = stored(function) | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.Name) and node.id not in known | local:
                yield node.lineno, f"kernel reads {node.id} from outside its file"


@module_rule("give every value a type, and choose by `if`")
def kernel_type(module: Module) -> Found:
    """Types of a kernel's values are written: no float16, and in loops no ternary and no bare float."""
    for function in kernels(module):
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.Attribute) and node.attr == "float16":
                yield node.lineno, "float16 in a kernel"
        for loop in (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)):
            inner = list(ast.walk(loop))
            typed = {id(each) for node in inner if last_of(node) in {"float32", "float64"} for each in _arguments(node)}
            for node in inner:
                if isinstance(node, ast.IfExp):
                    yield node.lineno, "ternary in a kernel loop"
                if isinstance(node, ast.Constant) and isinstance(node.value, float) and id(node) not in typed:
                    yield node.lineno, "bare float literal in a kernel loop"


def _imported(module: Module, name: str) -> Found:
    for node in module.of(ast.Import, ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        if name in {each.split(".")[0] for each in modules}:
            yield node.lineno, f"module {name}"


def kernels(module: Module) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module that are compiled."""
    for node in module.of(ast.FunctionDef):
        if {last_of(each) for each in node.decorator_list} & {"kernel", "helper"}:
            yield node


def _arguments(node: ast.AST) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []


def _names(call: ast.Call, wanted: set[str]) -> bool:
    return any((last_of(each) or getattr(each, "value", "")) in wanted for each in _arguments(call))
