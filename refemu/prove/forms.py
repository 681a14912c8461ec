"""Registry of the forms that functions have on values that depend on inputs."""

from collections.abc import Callable
from typing import Any

from refemu.prove.frames import Closure
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import Choice, is_symbolic

HANDLERS = Interpreter.handlers
WHOLE: set[Any] = set()  #: forms that take a Choice as it is


def form_of(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the form of a function; it runs only where an argument depends on inputs."""

    def mark(form: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:

            def handler(run: Interpreter, *args: Any, _function: Any = function, **named: Any) -> Any:
                if not any(map(is_special, (*args, *named.values()))):
                    return _function(*args, **named)
                args = tuple(
                    each.values.item() if getattr(each, "ndim", 1) == 0 and run_is_array(each) else each
                    for each in args
                )
                place = next((at for at, each in enumerate(args) if isinstance(each, Choice)), None)
                if place is not None and form not in WHOLE:
                    return run.each_way(
                        args[place], lambda each: handler(run, *args[:place], each, *args[place + 1 :], **named)
                    )
                return form(run, *args, **named)

            HANDLERS[function] = handler
        return form

    return mark


def run_is_array(value: Any) -> bool:
    """Whether a value is an array that depends on inputs."""
    return type(value).__name__ == "Array"


def is_special(value: Any) -> bool:
    """Whether a value depends on inputs, or is a function, which may."""
    return is_symbolic(value) or isinstance(value, Closure) or (callable(value) and not isinstance(value, type))
