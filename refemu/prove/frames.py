"""Calls that an interpreter runs, and values that only it knows."""

from collections.abc import Callable, Sequence
from typing import Any

from refemu.prove import terms
from refemu.prove.terms import Term
from refemu.prove.values import Unsupported, integer


class Dead(Exception):
    """No path is left: every one has raised."""


class OutOfTime(Exception):
    """A lift has taken longer than its limit; the message is the line."""


class Filtered:
    """Elements of a comprehension whose `if` depends on inputs; not a list, since their number is not fixed."""

    def __init__(self, pairs: Sequence[tuple[Term, Any]]) -> None:
        self.pairs: Sequence[tuple[Term, Any]] = pairs

    def condition(self) -> Term:
        """What a test takes of the elements: whether there is one."""
        return terms.any_of(condition for condition, _ in self.pairs)

    def __getitem__(self, index: Any) -> Any:
        open_ = next(condition for condition, _ in self.pairs if condition.op != "const")
        raise Unsupported("an element of a selection that depends on inputs", open_)


class Unseen:
    """A register of other values than integers that no port shows; nothing may read it."""

    def __init__(self, name: str) -> None:
        self.__dict__["name"] = name

    def _read(self, *args: Any) -> Any:
        raise Unsupported(f"register {self.__dict__['name']}, which no port shows")

    __getattr__: Any = _read
    __getitem__: Any = _read
    __len__: Any = _read
    __iter__: Any = _read
    __bool__: Any = _read
    __eq__: Any = _read
    __hash__: Any = None


class Closure:
    """A function defined in a text that is run."""

    def __init__(self, frame: "Frame", tree: Any, defaults: Sequence[Any] = ()) -> None:
        self.frame: Frame = frame
        self.tree: Any = tree
        self.defaults: Sequence[Any] = defaults
        if tree.args.kwonlyargs or tree.args.kwarg:
            raise Unsupported("a local function with arguments by keyword only")


class Frame:
    """A call: its names, and the condition under which the present statement runs."""

    def __init__(self, function: Any, scope: Callable[[str], Any], file: str) -> None:
        self.function: Any = function
        self.scope: Callable[[str], Any] = scope
        self.file: str = file
        self.names: dict[str, Any] = {}
        self.changed: frozenset[str] = frozenset()  #: names whose elements the text assigns
        self.path: Term = terms.TRUE
        self.returned: list[tuple[Term, Any]] = []
        self.yielded: list[Any] | None = None
        self.gone: int = 0  #: returns and raises met so far
        self.branch: tuple[int, ...] = ()  #: branches and partial iterations that the present statement is in
        self.exits: list[list[tuple[Term, dict[str, Any]]]] = []  #: breaks of each loop around
        self.turns: list[list[tuple[Term, dict[str, Any]]]] = []  #: continues of each loop around


class SymbolicRange:
    """A range whose end depends on inputs."""

    def __init__(self, start: int, stop: Any) -> None:
        self.start: int = start
        self.stop: Any = stop
        self.most: int = max(integer(stop).high, start)
