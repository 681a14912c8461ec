"""Syntax trees of functions that are loaded, by their code."""

import ast
import functools
import linecache
from collections.abc import Sequence
from types import FunctionType

from refemu.prove.values import Unsupported

Function = ast.FunctionDef | ast.Lambda


@functools.lru_cache(maxsize=512)
def _module(text: str) -> dict[int, list[Function]]:
    """Functions of a module by their first line, that of a decorator included."""
    answer: dict[int, list[Function]] = {}
    for each in ast.walk(ast.parse(text)):
        if isinstance(each, ast.FunctionDef | ast.Lambda):
            decorators = each.decorator_list if isinstance(each, ast.FunctionDef) else []
            answer.setdefault(min([each.lineno, *(mark.lineno for mark in decorators)]), []).append(each)
    return answer


def tree_of(function: FunctionType) -> Function:
    """The syntax tree of a function; raises Unsupported if its source is not known."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    arguments = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    trees = [
        tree
        for tree in (_module(text).get(code.co_firstlineno, []) if text else [])
        if (tree.name if isinstance(tree, ast.FunctionDef) else "<lambda>") == code.co_name
        and [each.arg for each in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)] == arguments
    ]
    if len(trees) == 1:  # two on one line cannot be distinguished
        return trees[0]
    raise Unsupported(f"{function.__qualname__}, whose source is not known")


@functools.cache
def _assigned(*statements: ast.AST) -> frozenset[str]:
    return frozenset(
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)
    )


def assigned(statements: Sequence[ast.AST]) -> frozenset[str]:
    """Names that statements assign."""
    return _assigned(*statements)


@functools.cache
def changed(tree: Function) -> frozenset[str]:
    """Names whose elements a function assigns."""
    return frozenset(
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    )


@functools.cache
def yields(tree: Function) -> bool:
    """Whether a function is a generator."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(tree))


MAKERS = frozenset(("array", "zeros", "ones", "full", "empty", "arange"))  #: of NumPy: each call makes a new array


def is_fresh(node: ast.expr) -> bool:
    """Whether an expression makes a new array of NumPy, which nothing else has."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Name) and owner.id == "np":
        return node.func.attr in MAKERS
    return node.func.attr in ("view", "reshape", "astype") and is_fresh(owner)
