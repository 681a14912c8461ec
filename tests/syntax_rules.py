"""The determinism policy as rules over syntax trees: `violations(source, path)` names every forbidden construct.

A syntax tree knows no dtypes, so a rule forbids a name wherever it could meet floats; where one is right, the test that
calls this holds the exception and its reason.
"""

import ast
import builtins
import functools
from collections.abc import Iterator

PRODUCTS = {"dot", "matmul", "inner", "vdot", "einsum", "tensordot", "convolve", "correlate", "linalg"}
REDUCTIONS = {"sum", "mean", "var", "std", "prod", "average", "nansum", "nanmean", "fsum"}
FUNCTIONS = {
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "power",
    "float_power",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "arctan2",
    "asin",
    "acos",
    "atan",
    "atan2",
    "cbrt",
    "erf",
    "erfc",
    "hypot",
    "gamma",
    "lgamma",
    "expit",
    "logsumexp",
}
SORTS = {"argsort", "sort"}
PARTITIONS = {"partition", "argpartition"}
INTEGER_TYPES = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int"}
ROUNDED = {"rint", "floor", "ceil", "trunc", "round"}
NUMERIC_MODULES = {"np", "numpy", "math", "scipy", "special", "cmath"}
KERNEL_GLOBALS = {"np", "range", "len", "min", "max", "abs"}


def tree(source: str) -> ast.Module:
    """The syntax tree of a source."""
    root = nodes(source)[0]
    assert isinstance(root, ast.Module)
    return root


@functools.cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """The module and every node below it, as `ast.walk` yields them; parsed once for all rules."""
    return tuple(ast.walk(ast.parse(source)))


def violations(source: str, path: str = "module.py") -> list[str]:
    """Every broken rule as `rule at line N`, in line order."""
    found = [(node.lineno, rule) for node in nodes(source) for rule in _rules(node, path)]
    own = KERNEL_GLOBALS | {name for node in tree(source).body for name in _defined(node) | _shared(node)}
    found += [item for function in _kernels(source) for item in _kernel_rules(function, own)]
    return [f"{rule} at line {line}" for line, rule in sorted(set(found))]


def _rules(node: ast.AST, path: str) -> Iterator[str]:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        if isinstance(node.op, ast.MatMult):
            yield "operator @"
        if isinstance(node.op, ast.Pow) and not _integer_constants(node):
            yield "operator **"
    if isinstance(node, ast.Call):
        yield from _call_rules(node)
    if isinstance(node, ast.Attribute) and node.attr == "random" and _root(node) in {"np", "numpy"}:
        yield "np.random"
    if isinstance(node, ast.Attribute) and node.attr == "linalg":
        yield "linalg of a library"
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _import_rules(node, path)
    if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
        yield "iteration over a set"


def _call_rules(call: ast.Call) -> Iterator[str]:
    name, owner = _called(call)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if owner in NUMERIC_MODULES | {"ops"} and name in PRODUCTS:
        yield f"{name} of a library"
    if name in REDUCTIONS and owner is not None and (owner, name) != ("math", "prod"):
        yield f"reduction {name}"
    if name == "sum" and owner is None:
        yield "builtin sum"
    if name in FUNCTIONS and owner in NUMERIC_MODULES:
        yield f"library function {name}"
    if name in SORTS and owner is not None and not _is_stable(keywords):
        yield f"{name} that is not stable"
    if name in PARTITIONS and owner is not None and (owner in NUMERIC_MODULES or name == "argpartition"):
        yield f"{name}"
    if name in {"astype", "asarray", "array"} and _names(call, {"float16", "f2", "<f2", "half"}) and name == "astype":
        yield "cast to float16"
    if name == "astype" and _names(call, INTEGER_TYPES) and _looks_float(call.func):
        yield "cast of a float to an integer"
    if name in {"njit", "jit", "vectorize", "guvectorize", "prange"}:
        yield f"{name}"
    if "fastmath" in keywords or "parallel" in keywords:
        yield "fastmath or parallel"
    if name == "hash" and owner is None:
        yield "hash()"


def _import_rules(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[str]:
    module = getattr(node, "module", None) or ""
    names = [alias.name for alias in node.names]
    roots = {(module or name).split(".")[0] for name in names}
    if "random" in roots:
        yield "module random"
    if "time" in roots:
        yield "module time"
    if module in {"math", "numpy", "scipy.special"}:
        yield from (f"library function {name}" for name in names if name in FUNCTIONS)
    if getattr(node, "level", 0):
        yield "relative import"


def _kernels(source: str) -> Iterator[ast.FunctionDef]:
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef) and {_last(d) for d in node.decorator_list} & {"kernel", "helper"}:
            yield node


def _kernel_rules(function: ast.FunctionDef, own: set[str]) -> Iterator[tuple[int, str]]:
    local = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    for node in (inner for statement in function.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id not in own | local:
            yield node.lineno, f"kernel reads {node.id} from outside its file"
        if isinstance(node, ast.Attribute) and node.attr == "float16":
            yield node.lineno, "float16 in a kernel"
    for loop in (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)):
        for node in ast.walk(loop):
            if isinstance(node, ast.IfExp):
                yield node.lineno, "ternary in a kernel loop"
        yield from ((constant.lineno, "bare float literal in a kernel loop") for constant in _bare_floats(loop))


def _bare_floats(loop: ast.AST) -> Iterator[ast.Constant]:
    typed = {
        id(argument)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
        for argument in node.args
        if _called(node)[0] in {"float32", "float64"}
    }
    for node in ast.walk(loop):
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and id(node) not in typed:
            yield node


def _defined(node: ast.stmt) -> set[str]:
    """Names a module-level statement defines here; imports define none, so that a kernel cannot lean on them."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return {
            inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        }
    if isinstance(node, ast.If | ast.Try):
        return {name for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt) for name in _defined(inner)}
    return set()


def _shared(node: ast.stmt) -> set[str]:
    """Names taken from the layers whose sources are the key of the cache (`jit.kernel_files`)."""
    layers = tuple(f"refemu.{layer}" for layer in ("arith", "formats", "units"))
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    if not module.startswith(layers) or {"cases", "variants"} & set(module.split(".")):
        return set()
    assert isinstance(node, ast.ImportFrom)
    return {alias.asname or alias.name for alias in node.names}


def _called(call: ast.Call) -> tuple[str, str | None]:
    """Name of the function called and the root of what it is an attribute of (None for a bare name)."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr, _root(call.func.value) or ""
    return (call.func.id, None) if isinstance(call.func, ast.Name) else ("", None)


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _last(node: ast.AST) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _names(call: ast.Call, wanted: set[str]) -> bool:
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        _last(argument) in wanted or (isinstance(argument, ast.Constant) and argument.value in wanted)
        for argument in arguments
    )


def _looks_float(receiver: ast.AST) -> bool:
    """The receiver of `.astype` ends in a division or a rounding function."""
    value = receiver.value if isinstance(receiver, ast.Attribute) else receiver
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return True
    return isinstance(value, ast.Call) and _called(value)[0] in ROUNDED


def _is_stable(keywords: dict[str | None, ast.expr]) -> bool:
    kind = keywords.get("kind")
    return isinstance(kind, ast.Constant) and kind.value == "stable"


def _is_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and _called(node)[0] in {"set", "frozenset"}
    )


def _integer_constants(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return all(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides)


assert set(dir(builtins)) >= KERNEL_GLOBALS - {"np"}
