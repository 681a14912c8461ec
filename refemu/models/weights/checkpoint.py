"""Settings and tensor names of a weight file, read so that none is ignored.

A tensor or setting that the model does not use is rejected: a bias left out would silently change the logits.
"""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.reader_errors import contents, reading
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.weights.files import WeightFile, half

T = TypeVar("T")
_LARGEST = float(np.finfo(np.float32).max)


class Renamed:
    """The weights of a file under canonical names."""

    def __init__(
        self,
        file: WeightFile,
        config: ModelConfig | EncoderConfig,
        raw: Callable[[str], str],
        unused: Sequence[str] = (),
    ) -> None:
        """raw: canonical name to the file's name. unused: tensors that may exist and are not read."""
        self.file = file
        require_blocks(file, config.blocks)
        self._raw = {name: raw(name) for name in config.shapes}
        require_same(file, {self._raw[name]: shape for name, shape in config.shapes.items()}, config.meaning, unused)

    def __repr__(self) -> str:
        return f"Renamed({self.file!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names in model order."""
        return tuple(self._raw)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a weight."""
        return self.file.shape(self._raw[name])

    def tensor(self, name: str) -> np.ndarray:
        """A weight as float32, decoded at every call."""
        return self.file.tensor(self._raw[name])

    def half(self, name: str) -> np.ndarray:
        """A weight rounded once to fp16."""
        return half(self.file, self._raw[name])


def require_blocks(file: WeightFile, blocks: int) -> None:
    """Raise Refused for more blocks than the file has tensors, before a name is made for each."""
    if blocks > len(file.names):
        raise Refused(f"{file.path}: must have a tensor for each of {blocks} blocks, got {len(file.names)} tensors")


def require_same(
    file: WeightFile, wanted: Mapping[str, tuple[int, ...]], meaning: str, unused: Sequence[str] = ()
) -> None:
    """Require every tensor of `wanted` in its shape and a known type, and nothing else but `unused`.

    meaning: what the tensors form, for the message.
    """
    there = set(file.names)
    for raw, shape in wanted.items():
        if raw not in there:
            raise Refused(f"{file.path}: tensor {raw} is missing")
        if file.shape(raw) != shape:
            raise Refused(f"{file.path}: tensor {raw} must have shape {shape}, got {file.shape(raw)}")
        file.require_type(raw)
    more = sorted(there - set(wanted) - set(unused))
    if more:
        raise Refused(f"{file.path}: tensor {more[0]} is not part of {meaning} as refemu models it")


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Start every error about a setting with the file, such as an error of a scaling made from its settings."""
    try:
        yield
    except (Refused, RefusedType) as error:
        if str(error).startswith(str(file)):
            raise
        raise type(error)(f"{file}: {error}") from error


class Settings:
    """Settings of a file by key; every error names file and key."""

    def __init__(self, where: str, get: Any) -> None:
        """get: get(key, default), the setting of a key."""
        self._where, self._get = where, get
        self._read: set[str] = set()

    def any(self, key: str, default: Any = None) -> Any:
        """A setting of any kind."""
        self._read.add(key)
        return self._get(key, default)

    def value(self, key: str, default: Any = None) -> Any:
        """A number or a truth value."""
        setting = self.any(key, default)
        if isinstance(setting, str | list | dict) or setting is None:
            raise Refused(f"{self._where}{key} must be a number, got {setting!r}")
        return setting

    def truth(self, key: str, default: bool) -> bool:
        """A truth value; 0 and 1 are read as one."""
        setting = self.any(key, default)
        if setting not in (False, True):
            raise Refused(f"{self._where}{key} must be true or false, got {setting!r}")
        return bool(setting)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        setting = self.value(key, default)
        if isinstance(setting, bool) or not (isinstance(setting, int) or float(setting).is_integer()):
            raise Refused(f"{self._where}{key} must be a whole number, got {setting!r}")
        return int(setting)

    def real(self, key: str, default: float | None = None) -> float:
        """A number that float32 can represent."""
        setting = self.value(key, default)
        if isinstance(setting, bool) or not -_LARGEST <= setting <= _LARGEST:  # NaN fails as well
            raise Refused(f"{self._where}{key} must be a number that float32 holds, got {setting!r}")
        return float(setting)

    def reals(self, key: str) -> tuple[float, ...]:
        """A list of numbers."""
        setting = self.any(key)
        if not isinstance(setting, list) or not all(type(x) in (int, float) for x in setting):
            raise Refused(f"{self._where}{key} must be a list of numbers, got {setting!r}")
        return tuple(float(x) for x in setting)

    def choice(self, key: str, choices: Mapping[str, T], default: str | None = None) -> T:
        """The value that a text of `choices` names."""
        setting = self.any(key, default)
        if not isinstance(setting, str) or setting not in choices:
            raise Refused(f"{self._where}{key} must be one of {', '.join(choices)}, got {setting!r}")
        return choices[setting]

    def expect(self, key: str, wanted: Any, why: str) -> None:
        """Raise Refused for another setting than the one that is modelled."""
        setting = self.any(key, wanted)
        if setting != wanted:
            raise Refused(f"{self._where}{key} must be {wanted!r} ({why}), got {setting!r}")

    def require_all_read(self, keys: Iterable[str], harmless: Container[str] = ()) -> None:
        """Raise Refused for a key that nobody read and that may change results."""
        for key in keys:
            if key not in self._read and key not in harmless:
                raise Refused(f"{self._where}{key} is not a setting that refemu models, got {self._get(key, None)!r}")


LONGEST = 1 << 22  #: largest JSON file in bytes; the index of a model in hundreds of files has a tenth


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; raises Refused if it is missing or anything else."""
    try:
        with reading(str(path), "JSON"):
            content = json.loads(contents(path, LONGEST, str(path)).decode("utf-8"))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}; the sizes of a safetensors model are in this file") from None
    if not isinstance(content, dict):
        raise Refused(f"{path}: a JSON object is needed, got {type(content).__name__}")
    return content


def float32(value: float) -> float:
    """The float32 value of a setting."""
    return float(np.float32(value))
