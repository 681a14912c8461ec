"""Safetensors weights in several files, which `model.safetensors.index.json` lists."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.models.weights.checkpoint import read_json
from refemu.models.weights.digests import digest
from refemu.models.weights.files import open_weights

INDEX = "model.safetensors.index.json"


class ShardedFile:
    """The files that an index names, as one: what `SafetensorsFile` is for one file."""

    def __init__(self, path: Path) -> None:
        """path: of the index. Refuses files that are missing or elsewhere, and tensors that the two do not agree on."""
        self.path = path
        where = _weight_map(path)
        self._files = {name: open_weights(path.with_name(name)) for name in sorted(set(where.values()))}
        self._where = {tensor: self._files[name] for tensor, name in where.items()}
        for tensor, name in where.items():
            if tensor not in self._files[name].names:
                raise Refused(f"{path}: tensor {tensor} must be in {name}, which does not hold it")
        for file in self._files.values():
            for tensor in file.names:
                if self._where.get(tensor) is not file:
                    raise Refused(f"{path}: tensor {tensor} is in {file.path.name}, where the index has none")

    def __repr__(self) -> str:
        return f"ShardedFile({str(self.path)!r}, {len(self._files)} files, {len(self._where)} tensors)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, ascending."""
        return tuple(sorted(self._where))

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return lookup("tensor", name, self._where).shape(name)

    def require_type(self, name: str) -> None:
        """Refuse a tensor of a type that `SafetensorsFile` refuses."""
        lookup("tensor", name, self._where).require_type(name)

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32, exactly. Refuses what `SafetensorsFile` refuses."""
        return lookup("tensor", name, self._where).tensor(name)

    def half(self, name: str) -> np.ndarray:
        """A tensor rounded once to fp16; float16 as it lies in the mapped file."""
        return lookup("tensor", name, self._where).half(name)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, ascending by name."""
        return tuple(file.path for file in self._files.values())

    def sha256(self) -> str:
        """sha256 over a line for each file, ascending: its own sha256, two spaces, its name."""
        lines = [f"{digest(file.path)}  {name}\n" for name, file in self._files.items()]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def _weight_map(path: Path) -> dict[str, str]:
    """File by tensor; a file is a name beside the index, never a path."""
    names: Any = read_json(path).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise Refused(f"{path}: weight_map must say which file holds which tensor, got {type(names).__name__}")
    for tensor, name in names.items():
        if not isinstance(name, str) or not name.isprintable() or not name or Path(name).name != name:
            raise Refused(f"{path}: weight_map must name a file beside it for tensor {tensor}, got {name!r}")
    return names
