"""Bounds of every value in lifted functions, from the widths of the ports: numba integers have 64 bits only.

Branches are joined, except those that a constant excludes; loops run as often as in the text. Shift amounts are at
least 0, since the readable form raises below it.
"""

import ast
from collections.abc import Mapping, Sequence

from refemu.arith.checks import Refused
from refemu.units.compiled import ranges
from refemu.units.compiled.placement import shared
from refemu.units.compiled.ranges import Range, Real, Value, Vector, items, join, joined, least, length, real, truth

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
HIDDEN = ("_c", "_s", "_p")  #: arguments that only compiled code has


def _merge(local: dict[str, Value], ways: Sequence[Mapping[str, Value]]) -> None:
    """Names after one of several branches."""
    for name in set().union(*ways):
        local[name] = joined(way[name] for way in ways if name in way)


class Bounds:
    """Evaluates lifted functions over ranges; raises Refused if a value may exceed 64 bits."""

    def __init__(
        self,
        unit: str,
        functions: Mapping[str, ast.FunctionDef],
        names: Mapping[str, Value],
        written: Mapping[str, int] | None = None,
    ) -> None:
        self.unit, self.functions = unit, functions
        self.names = names  #: bounds of constants and registers
        self.written = written or {}  #: lanes of the vector that a statement writes, by its name
        self.known: dict[tuple[str, tuple[Value, ...]], Value] = {}
        self.function = ""  #: function under evaluation
        self.taken: list[str] = []  #: arguments of the function
        self.lengths: dict[str, int] = {}  #: lengths of lists of events, by the name of their array; -1: variable

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        """Bounds of the result of a function."""
        key = name, tuple(arguments)
        if key not in self.known:
            tree = self.functions[name]
            taken = [each.arg for each in tree.args.args]
            local = dict(zip(taken, arguments, strict=False))
            if tree.args.vararg:
                local[tree.args.vararg.arg] = tuple(arguments[len(taken) :])
            returned: list[Value] = []
            outer, self.function, self.taken = (self.function, self.taken), name, taken
            self._block(tree.body, local, returned)
            self.function, self.taken = outer
            self.known[key] = joined(returned)
        return self.known[key]

    # statements

    def _block(self, body: Sequence[ast.stmt], local: dict[str, Value], returned: list[Value]) -> bool:
        """Run a block; return whether the code after it can be reached."""
        return all(self._statement(statement, local, returned) for statement in body)

    def _statement(self, node: ast.stmt, local: dict[str, Value], returned: list[Value]) -> bool:
        match node:
            case ast.Return(value=ast.expr() as value):
                returned.append(self.value(value, local))
                return False
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
                item, vector = self.value(value, local), local[name]
                if (vector.item is ranges.NO_REAL or isinstance(vector.item, Real)) != isinstance(item, Real):
                    raise Refused(f"{self.unit}: {ast.unparse(value)} must be an integer, or its function say float")
                local[name] = vector._replace(
                    item=item if vector.item in (None, ranges.NO_REAL) else join(vector.item, item)
                )
            case ast.Assign(targets=[ast.Name(), _, *_] as targets, value=value):
                for target in targets:
                    self._assign(target, self.value(value, local), local)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.value(value, local), local)
                if "_p" in self.taken and ast.unparse(value).startswith("f_empty"):
                    self._share(node, local[ast.unparse(target)])
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                binary = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
                local[target.id] = self.value(ast.copy_location(binary, node), local)
            case ast.If():
                return self._branches(node, local, returned)
            case ast.For():
                return self._loop(node, local, returned)
            case ast.Raise():
                return False
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[vector])):  # a vector is written
                written, lanes = self.value(vector, local), self.written[name]
                if (length(written), least(written)) != (lanes, lanes):
                    raise Refused(f"{self.unit}: {ast.unparse(vector)} must have {lanes} lanes, got {length(written)}")
                if not all(isinstance(each, Range) for each in items(written)):
                    raise Refused(f"{self.unit}: {ast.unparse(vector)} must be integers, got a real number")
            case ast.Expr(value=ast.Call(args=[])):  # a vector is retained
                pass
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise Refused(f"{self.unit}: {ast.unparse(node)} has no bounds")
        return True

    def _share(self, node: ast.Assign, vector: Value) -> None:
        """A list of an event has the same length every time, or not."""
        name = shared(self.function, node)
        same = least(vector) == length(vector) == self.lengths.get(name, length(vector))
        self.lengths[name] = length(vector) if same else -1

    def _loop(self, node: ast.For, local: dict[str, Value], returned: list[Value]) -> bool:
        """Run the body for every turn; optional turns are joined with the names before."""
        values = self.value(node.iter, local)
        for place, item in enumerate(items(values)):
            before = dict(local)
            self._assign(node.target, item, local)
            goes_on = self._block(node.body, local, returned)
            if place >= least(values):
                _merge(local, [before, local] if goes_on else [before])
            if not goes_on:
                return place >= least(values)
        return True

    def _branches(self, node: ast.If, local: dict[str, Value], returned: list[Value]) -> bool:
        test = truth(self.value(node.test, local))
        after = []
        for taken, body in ((test.high != 0, node.body), (test.low == 0, node.orelse)):
            branch = dict(local)
            if taken and self._block(body, branch, returned):
                after.append(branch)
        _merge(local, after)
        return bool(after)

    def _assign(self, target: ast.expr, value: Value, local: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            local[target.id] = value
        elif isinstance(target, ast.Tuple):
            values = items(value)
            if len(values) != len(target.elts):
                raise Refused(
                    f"{self.unit}: {ast.unparse(target)} must have as many values as are assigned, got {len(values)};"
                    " write one, or state compiled_run='none'"
                )
            for part, item in zip(target.elts, values, strict=True):
                self._assign(part, item, local)

    # expressions

    def value(self, node: ast.expr, local: Mapping[str, Value]) -> Value:
        """Bounds of an expression; raises Refused if it may exceed 64 bits."""
        try:
            value = self._expression(node, local)
        except OverflowError as error:
            raise Refused(f"{self.unit}: {ast.unparse(node)} may be {error}") from None
        if isinstance(value, Range) and not LOWEST <= value.low <= value.high <= HIGHEST:
            raise Refused(f"{self.unit}: {ast.unparse(node)} may leave 64 bits: {value.low} to {value.high}")
        return value

    def _expression(self, node: ast.expr, local: Mapping[str, Value]) -> Value:
        match node:
            case ast.Constant(value=int(value)):
                return Range(int(value), int(value))
            case ast.Constant(value=float(value)):
                return Real(value, value)
            case ast.Name(id=name):
                return local[name] if name in local else self.names[name]
            case ast.Tuple(elts=parts):
                return tuple(self._values(parts, local))
            case ast.List(elts=parts):
                return Vector(joined(self.value(each, local) for each in parts), len(parts))
            case ast.BinOp(left=left, op=op, right=right):
                operands = self.value(left, local), self.value(right, local)
                if all(isinstance(each, Range) for each in operands):
                    return ranges.OPERATIONS[type(op)](*operands)
                if all(isinstance(each, Range | Real) for each in operands) and type(op) in ranges.REALS:
                    return ranges.reals(ranges.REALS[type(op)], *map(real, operands))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, local))
            case ast.BoolOp(op=op, values=parts):
                return self._either(op, [self.value(each, local) for each in parts])
            case ast.Compare():
                return self._compared(node, local)
            case ast.IfExp(test=test, body=body, orelse=other):
                condition = truth(self.value(test, local))
                chosen = [body] * (condition.high != 0) + [other] * (condition.low == 0)
                return joined(self.value(each, local) for each in chosen)
            case ast.Subscript(value=vector, slice=index):
                return self._item(self.value(vector, local), index, local)
            case ast.ListComp(elt=element, generators=[loop]):
                iterated, inner = self.value(loop.iter, local), dict(local)
                self._assign(loop.target, joined(items(iterated)), inner)
                return Vector(self.value(element, inner), length(iterated), length(iterated) - least(iterated))
            case ast.Attribute(value=record, attr=name):
                return getattr(self.value(record, local), name)
            case ast.Call():
                return self._called(node, local)
        raise Refused(f"{self.unit}: {ast.unparse(node)} has no bounds")

    def _values(self, parts: Sequence[ast.expr], local: Mapping[str, Value]) -> list[Value]:
        """Bounds of arguments, or of the elements of a tuple."""
        values: list[Value] = []
        for each in parts:
            if isinstance(each, ast.Starred):
                values += items(self.value(each.value, local))
            else:
                hidden = isinstance(each, ast.Name) and each.id in HIDDEN
                values.append(() if hidden else self.value(each, local))
        return values

    def _called(self, node: ast.Call, local: Mapping[str, Value]) -> Value:
        values = self._values(node.args, local)
        name = ast.unparse(node.func)
        if name in self.functions:
            return self.call(name, values)
        return ranges.BUILTINS[name](*values) if name in ranges.BUILTINS else self.names[name](*values)

    def _item(self, vector: Value, index: ast.expr, local: Mapping[str, Value]) -> Value:
        place = self.value(index, local)
        if not -least(vector) <= place.low <= place.high < least(vector):
            raise OverflowError(f"an index of {place.low} to {place.high} of {least(vector)}")
        if isinstance(vector, tuple) and not isinstance(vector, Vector) and place.low == place.high:
            return vector[place.low]
        return joined(items(vector))

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not):
            return Range(1 - truth(value).high, 1 - truth(value).low)
        if isinstance(value, Real):
            if isinstance(op, ast.Invert):
                raise OverflowError("of a real number")
            return Real(-value.high, -value.low) if isinstance(op, ast.USub) else value
        if isinstance(op, ast.USub):
            return Range(-value.high, -value.low)
        return Range(~value.high, ~value.low) if isinstance(op, ast.Invert) else value

    def _either(self, op: ast.boolop, values: Sequence[Range]) -> Value:
        if isinstance(op, ast.And) and any(each == (0, 0) for each in values):
            return Range(0, 0)
        if isinstance(op, ast.Or) and all(each == (0, 0) for each in values):
            return Range(0, 0)
        return joined(values)

    def _compared(self, node: ast.Compare, local: Mapping[str, Value]) -> Range:
        """1 or 0 if constants decide, else either."""
        values = [self.value(each, local) for each in (node.left, *node.comparators)]
        if any(isinstance(each, Real) for each in values):
            values = [real(each) for each in values]
            return ranges.BIT
        if len(node.ops) == 1 and all(isinstance(each, Range) and each.low == each.high for each in values):
            result = int(ranges.COMPARED[type(node.ops[0])](values[0].low, values[1].low))
            return Range(result, result)
        return ranges.BIT
