"""Parameters of a unit by name."""

from collections.abc import Iterator, Mapping
from typing import Any

from refemu.arith.checks import plain


class Config(Mapping[str, Any]):
    """Parameters of a unit by keyword, frozen: `Config(normal="int4", outlier=(2, 1))`."""

    def __init__(self, **parameters: Any) -> None:
        """Freeze parameters by name; convert NumPy scalars to Python's."""
        self._parameters = {name: plain(value) for name, value in sorted(parameters.items())}

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __hash__(self) -> int:
        return tuple(self._parameters.items()).__hash__()

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._parameters.items())})"
