"""Caches by name that notice when a plug-in registers another object under the same name."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def following(find: Callable[[str], Any]) -> Callable[[Callable[[str, Any], T]], Callable[[str], T]]:
    """Cache a function of a name and its object, while `find` returns the same object."""

    def decorate(function: Callable[[str, Any], T]) -> Callable[[str], T]:
        known: dict[str, tuple[Any, T]] = {}  # holds the object, so that no other gets its identity

        @functools.wraps(function)
        def of_name(name: str) -> T:
            thing = find(name)
            if name not in known or known[name][0] is not thing:
                known[name] = thing, function(name, thing)
            return known[name][1]

        return of_name

    return decorate
