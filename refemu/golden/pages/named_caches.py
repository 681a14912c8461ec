"""Caches by name that follow what the name stands for: a plug-in may register another thing under the same name."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def following(find: Callable[[str], Any]) -> Callable[[Callable[[str, Any], T]], Callable[[str], T]]:
    """Cache a function of a name and of the thing that `find` gives for it, as long as it gives that very thing."""

    def decorate(function: Callable[[str, Any], T]) -> Callable[[str], T]:
        known: dict[str, tuple[Any, T]] = {}  # the thing is kept, so that no other can have its identity

        @functools.wraps(function)
        def of_name(name: str) -> T:
            thing = find(name)
            if name not in known or known[name][0] is not thing:
                known[name] = thing, function(name, thing)
            return known[name][1]

        return of_name

    return decorate
