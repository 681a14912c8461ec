"""Weight files, tensor by tensor: GGUF and safetensors, each read with its own library.

A file is memory-mapped; `tensor` decodes one tensor to float32 and caches nothing. Every decoding is exact or a fixed
sequence of elementwise IEEE operations (a GGUF block is scale * code + minimum), so the values are the same everywhere.
"""

import json
import struct
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from refemu.arith import fp16, panels
from refemu.arith.checks import Refused, at, first_index, lookup
from refemu.arith.reader_errors import reading
from refemu.models.extras import need
from refemu.models.weights import digests

LENGTH = struct.Struct("<Q")  #: length field of a string in a GGUF file
COMPILED = 1 << 18  #: fewest elements that compiled code casts
GGUF_TYPES = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
)  #: types of tensors that the gguf package decodes


class Weights(Protocol):
    """Tensors by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, in the file's order."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; a linear layer is (out, in)."""

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32, decoded at every call; raises Refused for NaN and infinity."""


class WeightFile(Weights, Protocol):
    """Tensors of a file."""

    path: Path

    def require_type(self, name: str) -> None:
        """Raise Refused for a tensor of a type that `tensor` does not decode."""


def paths(weights: Any) -> tuple[Path, ...]:
    """The files that weights are read from; none for untrained random weights."""
    file = getattr(weights, "file", None)
    if file is None:
        return ()
    return tuple(getattr(file, "paths", None) or (file.path,))


def require_same(weights: Any) -> None:
    """Raise Refused if a file of the weights changed since its digest was computed."""
    for file in paths(weights):
        digests.require_same(file)


def half(weights: Any, name: str) -> np.ndarray:
    """A tensor rounded once to fp16: float16, mapped if the file stores that, else computed at every call.

    Weights that transform the tensors of their file have no `half`; their `tensor` is rounded.
    """
    reader = next(kind for kind in type(weights).__mro__ if "tensor" in vars(kind))
    if "half" in vars(reader):
        rounded: np.ndarray = weights.half(name)
        return rounded
    return narrow(weights.tensor(name))


def narrow(values: np.ndarray) -> np.ndarray:
    """float32 rounded to float16, by compiled code where it is large."""
    if values.size < COMPILED:
        return fp16.to_f16(values)
    from refemu.arith import fp16_compiled

    return fp16_compiled.to_f16(values)


class Gguf(WeightFile, Protocol):
    """Tensors and metadata of a GGUF model, in one file or several."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the metadata."""

    def metadata(self, key: str, default: Any = None) -> Any:
        """A metadata value: int, float, bool, str or a list of these; `default` if there is none."""


class GgufFile:
    """A GGUF file (version 2 or 3), or a part of a split one with its own tensors only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = need("gguf", "reading a GGUF file")
        with _readable(path, "GGUF"):
            reader = _reader(self._library)(path)
            self._fields: dict[str, Any] = dict(reader.fields)
            self._tensors = {tensor.name: tensor for tensor in reader.tensors}
            _require_padding(reader)
        if reader.byte_order == "S":  # the library swaps metadata, and decodes tensors in this machine's order
            raise Refused(
                f"{path}: the file has another byte order than this machine; convert it with gguf-convert-endian"
            )

    def __repr__(self) -> str:
        return f"GgufFile({str(self.path)!r}, {len(self._tensors)} tensors)"

    def metadata(self, key: str, default: Any = None) -> Any:
        """A metadata value: int, float, bool, str or a list of these; `default` if the file has none."""
        if key not in self._fields:
            return default
        field, kinds = self._fields[key], self._library.GGUFValueType
        with _readable(self.path, "GGUF"):
            return _strings(field.parts[-1]) if field.types == [kinds.ARRAY, kinds.STRING] else field.contents()

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the metadata."""
        return tuple(self._fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, in the file's order."""
        return tuple(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor in NumPy's order: the file's dimensions, reversed."""
        return tuple(int(n) for n in reversed(lookup("tensor", name, self._tensors).shape))

    def require_type(self, name: str) -> None:
        """Raise Refused for a tensor of a type that is not in `GGUF_TYPES`."""
        kind = lookup("tensor", name, self._tensors).tensor_type.name
        if kind not in GGUF_TYPES:
            raise Refused(f"{self.path}: tensor {name} must be of type {', '.join(GGUF_TYPES)}, got {kind}")

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32; raises Refused for NaN, infinity, and types that are not in `GGUF_TYPES`."""
        self.require_type(name)
        stored = self._tensors[name]
        with _readable(self.path, "GGUF"):
            values = self._library.quants.dequantize(stored.data, stored.tensor_type).reshape(self.shape(name))
        return _finite(values, self.path, name)

    def half(self, name: str) -> np.ndarray:
        """A tensor rounded once to fp16; raises Refused like `tensor`."""
        return narrow(self.tensor(name))


class SafetensorsFile:
    """A safetensors file with tensors in float32, float16 or bfloat16."""

    def __init__(self, path: Path) -> None:
        self.path = path
        library = need("safetensors", "reading a safetensors file")
        with _readable(path, "safetensors", library.SafetensorError):
            self._file = library.safe_open(path, framework="np")
        self._error = library.SafetensorError
        self._names = tuple(self._file.keys())

    def __repr__(self) -> str:
        return f"SafetensorsFile({str(self.path)!r}, {len(self._names)} tensors)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, ascending."""
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return tuple(self._slice(name).get_shape())

    def require_type(self, name: str) -> None:
        """Raise Refused for a tensor in another type than float32, float16 and bfloat16."""
        kind = self._slice(name).get_dtype()
        if kind not in ("F32", "F16", "BF16"):
            raise Refused(f"{self.path}: tensor {name} must be of type F32, F16 or BF16, got {kind}")

    def tensor(self, name: str) -> np.ndarray:
        """A tensor as float32, exactly; raises Refused for NaN, infinity, and other types."""
        self.require_type(name)
        kind = self._slice(name).get_dtype()
        with _readable(self.path, "safetensors", self._error):
            values = _widened(self._map(name, "<u2")) if kind == "BF16" else self._file.get_tensor(name)
        return _finite(values, self.path, name)

    def half(self, name: str) -> np.ndarray:
        """A tensor rounded once to fp16; a float16 one is mapped. Raises Refused like `tensor`."""
        kind = self._slice(name).get_dtype()
        if kind != "F16":
            return narrow(self.tensor(name))
        with _readable(self.path, "safetensors", self._error):
            values = self._map(name, "<f2")
        peak = panels.peak(values)
        if not peak <= fp16.MAX:  # NaN fails as well
            _finite(values, self.path, name)
        return values

    def _slice(self, name: str) -> Any:
        lookup("tensor", name, dict.fromkeys(self._names))
        return self._file.get_slice(name)

    def _map(self, name: str, dtype: str) -> np.ndarray:
        """A tensor as stored in the file, in words of two bytes. The library would copy it, and has no bfloat16."""
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))[name]  # the library has validated this header
        first, end = entry["data_offsets"]
        if first == end:
            return np.empty(entry["shape"], dtype)
        whole = np.memmap(self.path, dtype, "r", offset=8 + length + first, shape=((end - first) // 2,))
        return whole.view(np.ndarray).reshape(entry["shape"])


def open_weights(path: str | Path) -> GgufFile | SafetensorsFile:
    """The weight file at `path`, recognized by its first bytes; raises Refused unless GGUF or safetensors."""
    where = Path(path)
    try:
        with reading(repr(str(where)), "the name of a weight file"), where.open("rb") as file:
            head = file.read(9)
    except OSError as error:
        raise Refused(f"{where}: {error.strerror or error}") from None
    if head[:4] == b"GGUF":
        return GgufFile(where)
    if head[8:9] == b"{":
        return SafetensorsFile(where)
    raise Refused(f"{where}: must be a GGUF or safetensors file, got {head[:4].hex() or 'no bytes'} at its start")


def _reader(library: Any) -> type:
    """The library's reader with three changes to how it slices the file.

    It slices a plain array, because slicing a memory map takes three times as long. A slice beyond the end of the
    file is an error, where the library continues with what exists, for up to 2**64 elements. All elements of an array
    are one slice, because a vocabulary has 150,000, which most runs never read.
    """
    kinds = library.GGUFValueType

    class Reader(library.GGUFReader):
        data: np.ndarray

        def _get(self, offset: int, dtype: Any, count: int = 1, *rest: Any, **more: Any) -> np.ndarray:
            self.data = np.asarray(self.data)
            if int(count) < 0 or int(offset) + int(count) * np.dtype(dtype).itemsize > self.data.size:
                raise ValueError(f"{int(count)} elements at byte {int(offset)} reach beyond byte {self.data.size}")
            elements: np.ndarray = super()._get(offset, dtype, count, *rest, **more)
            return elements

        def _get_field_parts(self, offset: int, kind: int) -> tuple[int, list[np.ndarray], list[int], list[Any]]:
            if kind != kinds.ARRAY or self.byte_order == "S":
                return super()._get_field_parts(offset, kind)  # type: ignore[no-any-return]
            head = [self._get(offset, np.uint32), self._get(offset + 4, np.uint64)]
            inner, count, first = kinds(head[0][0]), int(head[1][0]), int(offset) + 12
            if inner == kinds.ARRAY:
                return super()._get_field_parts(offset, kind)  # type: ignore[no-any-return]
            if inner == kinds.STRING:
                elements = self._get(first, np.uint8, _end(self.data, first, count) - first)
            else:
                elements = self._get(first, self.gguf_scalar_to_np[inner], count)
            return 12 + elements.nbytes, [*head, elements], [2], [kinds.ARRAY, inner]

    return Reader


def _end(data: np.ndarray, at: int, count: int) -> int:
    """First byte after `count` strings from byte `at` on; a string is eight bytes of length, then its bytes."""
    for _ in range(count):
        if at + 8 > data.size:
            raise ValueError(f"strings reach beyond byte {data.size}")
        at += 8 + int(LENGTH.unpack_from(data.data, at)[0])
    return at


def _strings(data: np.ndarray) -> list[str]:
    """Consecutive strings, each after its length."""
    at, strings = 0, list[str]()
    while at < data.size:
        first, at = at + 8, _end(data, at, 1)
        strings.append(str(data[first:at].tobytes(), "utf-8"))
    return strings


def _require_padding(reader: Any) -> None:
    """Raise ValueError for a file that ends within the padding after its last tensor.

    Writers pad every tensor to the file's alignment. The format requires padding only between tensors, so a file may
    also end with the last tensor itself.
    """
    end = max((int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
    padded, size = end + -end % int(reader.alignment), int(reader.data.size)
    if end < size < padded:
        raise ValueError(f"the padding of the last tensor ends at byte {padded}, the file at byte {size}")


def _readable(path: Path, kind: str, *more: type[Exception]) -> AbstractContextManager[None]:
    """Turn what a library raises for a broken file into an error that names the file."""
    return reading(str(path), f"a readable {kind} file, or cut short", *more)


def _widened(words: np.ndarray) -> np.ndarray:
    """float32 whose upper halves are bfloat16 words."""
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _finite(values: np.ndarray, path: Path, name: str) -> np.ndarray:
    array = np.require(values, np.float32, ["C", "W"])  # copies values of the mapped file
    bad = ~np.isfinite(array)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{path}: tensor {name} must be finite, got {array[index]}{at(index)}")
    return array
