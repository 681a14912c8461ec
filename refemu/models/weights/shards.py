"""Weights in several files: safetensors that `model.safetensors.index.json` lists, and parts of a split GGUF model."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.models.weights.checkpoint import read_json
from refemu.models.weights.digests import digest
from refemu.models.weights.files import Gguf, GgufFile, WeightFile, half, open_weights

INDEX = "model.safetensors.index.json"
#: names of the parts of a split GGUF model, numbered from 1
PART = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>(?!00000)\d{5})\.gguf")
File = TypeVar("File", bound=WeightFile)


class Shards(Generic[File]):
    """Files that together hold the tensors of a model, as one file."""

    path: Path  #: path in error messages

    def __init__(self, path: Path, files: Mapping[str, File]) -> None:
        """files: by name, in order; raises Refused for a tensor in two of them."""
        self.path = path
        self._files = files
        self._where: dict[str, File] = {}
        for file in files.values():
            for tensor in file.names:
                if self._where.setdefault(tensor, file) is not file:
                    raise Refused(f"{file.path}: tensor {tensor} is in {self._where[tensor].path.name} already")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self._files)} files, {len(self._where)} tensors)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, ascending."""
        return tuple(sorted(self._where))

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return lookup("tensor", name, self._where).shape(name)

    def require_type(self, name: str) -> None:
        """Raise Refused for a tensor of a type that its file does not decode."""
        lookup("tensor", name, self._where).require_type(name)

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32; raises Refused like its file."""
        return lookup("tensor", name, self._where).tensor(name)

    def half(self, name: str) -> np.ndarray:
        """A tensor rounded once to fp16; a float16 one of a mapped file is mapped."""
        return half(lookup("tensor", name, self._where), name)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in order."""
        return tuple(file.path for file in self._files.values())

    def sha256(self) -> str:
        """sha256 over a line for each file, in order: its own sha256, two spaces, its name."""
        lines = [f"{digest(file.path)}  {name}\n" for name, file in self._files.items()]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


class ShardedFile(Shards[WeightFile]):
    """The safetensors files that an index names."""

    def __init__(self, path: Path) -> None:
        """path: of the index. Raises Refused for a missing file, one elsewhere, and tensors not as indexed."""
        where = _weight_map(path)
        files = {name: open_weights(path.with_name(name)) for name in sorted(set(where.values()))}
        for tensor, name in where.items():
            if tensor not in files[name].names:
                raise Refused(f"{path}: tensor {tensor} must be in {name}, which lacks it")
        for name, file in files.items():
            for tensor in file.names:
                if where.get(tensor) != name:
                    raise Refused(f"{path}: tensor {tensor} is in {name}, but not in the index")
        super().__init__(path, files)


class GgufParts(Shards[GgufFile]):
    """The parts of a split GGUF model, `NAME-00001-of-00003.gguf` and so on; the first has the settings."""

    def __init__(self, path: Path) -> None:
        """path: of any part. Raises Refused for missing parts, and parts whose metadata are those of others."""
        named = PART.fullmatch(path.name)
        if named is None:
            raise Refused(f"{path}: the name of a part of a split model must have the form NAME-00001-of-00003.gguf")
        if not 1 <= int(named["number"]) <= int(named["count"]):
            raise Refused(f"{path}: the number of a part must be in [1, {int(named['count'])}], got {named['number']}")
        parts: list[GgufFile] = []
        for number in range(int(named["count"])):
            file = path.with_name(f"{named['name']}-{number + 1:05d}-of-{named['count']}.gguf")
            parts.append(_opened_part(file, number, int(named["count"])))
        self._first = parts[0]
        super().__init__(parts[0].path, {part.path.name: part for part in parts})
        stated = self.metadata("split.tensors.count", len(self.names))
        if stated != len(self.names):
            raise Refused(f"{self.path}: the parts must have {stated} tensors in all, got {len(self.names)}")

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the first part's metadata."""
        return self._first.keys

    def metadata(self, key: str, default: Any = None) -> Any:
        """A metadata value of the first part; `default` where it has none."""
        return self._first.metadata(key, default)


def whole(file: GgufFile) -> Gguf:
    """The model of a GGUF file, or of the split model that it is a part of."""
    return file if file.metadata("split.count", 1) in (0, 1) else GgufParts(file.path)


def model_name(path: Path) -> str:
    """The name of a weight file without suffix and part number."""
    part = PART.fullmatch(path.name)
    return part["name"] if part else path.stem


def _opened_part(path: Path, number: int, count: int) -> GgufFile:
    """A part; raises Refused if its metadata disagree with its name, and for settings after the first part."""
    part = open_weights(path)
    if not isinstance(part, GgufFile):
        raise Refused(f"{path}: part {number} (from 0) of a split model must be a GGUF file, got safetensors")
    said = part.metadata("split.no"), part.metadata("split.count")
    if said != (number, count):
        raise Refused(f"{path}: split.no and split.count must be {(number, count)}, as in its name, got {said}")
    more = [key for key in part.keys if not key.startswith(("split.", "GGUF."))]
    if number and more:
        raise Refused(f"{path}: settings of a split model must be in its first part, got {more[0]}")
    return part


def _weight_map(path: Path) -> dict[str, str]:
    """File name by tensor; a file is in the folder of the index, so its name has no path."""
    names: Any = read_json(path).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise Refused(f"{path}: weight_map must say which file holds which tensor, got {type(names).__name__}")
    for tensor, name in names.items():
        if not isinstance(name, str) or not name.isprintable() or not name or Path(name).name != name:
            raise Refused(f"{path}: weight_map must name a file in its folder for tensor {tensor}, got {name!r}")
    return names
