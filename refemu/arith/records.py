"""Frozen dataclasses of parameters, which keep them as Python's own."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, dataclass_transform

from refemu.arith.checks import plain


@dataclass_transform(frozen_default=True)
def parameters(cls: Any = None, **options: bool) -> Any:
    """`dataclass(frozen=True, **options)` of a class whose `__post_init__` checks its fields.

    What NumPy made, as `np.int64(4)`, is an int, float, bool or str of Python before it is checked, shown and stored.
    """
    if cls is None:
        return lambda cls: parameters(cls, **options)
    cls.__post_init__ = _plain_before(cls.__post_init__)
    return dataclass(frozen=True, **options)(cls)


def _plain_before(check: Callable[[Any], None]) -> Callable[[Any], None]:
    def __post_init__(self: Any) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        check(self)

    return __post_init__
