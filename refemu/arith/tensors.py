"""Tensors of other libraries as NumPy arrays: DLPack, the array interface, and dtypes that NumPy lacks.

NumPy's own arrays pass unchanged, or in the byte order of the processor if they have the other. A tensor on a device is
copied by its own library, so refemu imports none.
"""

import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

CPU = 1  #: device type of DLPack
#: dtype that NumPy lacks -> bits of exponent and mantissa, bias, and what the highest exponent means:
#: "ieee" infinity and NaN; "last" NaN at the largest code alone; "minus zero" NaN at the code of -0 alone
NARROW: dict[str, tuple[int, int, int, str]] = {
    "bfloat16": (8, 7, 127, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "last"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fnuz": (4, 3, 8, "minus zero"),
    "float8_e5m2fnuz": (5, 2, 16, "minus zero"),
}
VIEW = "view it as unsigned integers of its width in its own library: x.view(torch.uint8), .view(torch.int16)"


class Unreadable(TypeError):
    """A tensor that refemu cannot read."""


@dataclass(frozen=True, eq=False)
class Host:
    """A tensor in NumPy's memory."""

    array: np.ndarray  #: NumPy's dtype, or uint8 and uint16 patterns of a dtype of NARROW
    dtype: str  #: name of the tensor's dtype, "float16", "bfloat16", ...

    @classmethod
    def of(cls, array: np.ndarray) -> "Host":
        """NumPy's own array."""
        return cls(array, array.dtype.name)

    @property
    def values(self) -> np.ndarray:
        """The array; of a dtype of NARROW its values as float32, exact."""
        return widened(self.array, self.dtype) if self.dtype in NARROW else self.array


def host(values: Any) -> Host:
    """`values` as NumPy's array. Unreadable: a tensor that cannot be copied or read, with what to do instead.

    values: an array, a sequence, or a tensor with DLPack, an array interface, or the methods of PyTorch.
    """
    if not isinstance(values, np.ndarray) and not isinstance(values, list | tuple | int | float):
        values = _foreign(values)
    if isinstance(values, Host):
        return values
    array = np.asarray(values)
    if array.dtype.kind in "iuf" and not array.dtype.isnative:
        array = array.byteswap().view(array.dtype.type)
    name = array.dtype.name
    if name in NARROW:  # of ml_dtypes
        return Host(array.view(f"u{array.dtype.itemsize}"), name)
    if array.dtype.isbuiltin != 1 and array.dtype.kind in "Vf":
        raise Unreadable(f"dtype {name} is not understood; {VIEW}")
    return Host.of(array)


def _foreign(values: Any) -> Any:
    """A tensor of another library as a Host, or what NumPy can read."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return _of_torch(values, torch)
    if not (hasattr(values, "__dlpack__") or hasattr(values, "__cuda_array_interface__")) or hasattr(
        values, "__array_interface__"
    ):
        return values
    array = _copied(values)
    _require_plain(array.shape, array.flags.c_contiguous)
    return array


def _of_torch(tensor: Any, torch: Any) -> Host:
    """A tensor of PyTorch, moved to the CPU; dtypes that NumPy lacks become patterns."""
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
        raise Unreadable(f"a dense tensor of real numbers is needed, got {tensor.layout} of {name}")
    _require_plain(tuple(tensor.shape), tensor.is_contiguous())
    try:
        near = tensor.detach().resolve_neg().cpu()
    except (RuntimeError, NotImplementedError) as error:
        raise Unreadable(f"PyTorch cannot copy the tensor from {tensor.device}: {_line(error)}") from None
    if name in NARROW:
        near = near.view(torch.uint8 if near.element_size() == 1 else torch.int16)
        return Host(near.numpy().view(f"u{near.element_size()}"), name)
    try:
        return Host(near.numpy(), name)
    except (TypeError, RuntimeError):
        raise Unreadable(f"dtype {name} is not understood; {VIEW}") from None


def _copied(values: Any) -> np.ndarray:
    """A tensor with DLPack or CUDA's array interface as an array, by the first way that its library offers."""
    what = f"{type(values).__module__.partition('.')[0]}.{type(values).__name__}"
    for method in ("copy_to_host", "get"):  # numba.cuda; CuPy
        if callable(getattr(values, method, None)):
            return np.asarray(getattr(values, method)())
    if not hasattr(values, "__dlpack__"):
        raise Unreadable(f"{what} is on a device and cannot copy itself; copy it to the CPU first")
    near = not hasattr(values, "__dlpack_device__") or values.__dlpack_device__()[0] == CPU
    try:
        return np.from_dlpack(values) if near else np.from_dlpack(values, device="cpu")
    except Exception as error:  # whatever the library raises is about its tensor
        if hasattr(values, "__array__"):  # JAX, for its dtypes
            return np.asarray(values)
        where = "" if near else f" on device {values.__dlpack_device__()}"
        todo = VIEW if near else "copy it to the CPU with its own library"
        raise Unreadable(f"{what}{where} cannot be read ({_line(error)}); {todo}") from None


def _require_plain(shape: tuple[int, ...], contiguous: bool) -> None:
    if not shape:
        raise Unreadable("a tensor needs at least one axis, got 0 axes; pass x.reshape(1), or x.item()")
    if not contiguous:
        raise Unreadable(f"a tensor must be contiguous, got strides of shape {shape}; pass x.contiguous()")


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def widened(codes: np.ndarray, name: str) -> np.ndarray:
    """float32 values of patterns of a dtype of NARROW, exact."""
    if name == "bfloat16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(_table(name)[codes])


@functools.cache
def _table(name: str) -> np.ndarray:
    """float32 value of each of 256 codes."""
    exponents, mantissas, bias, top = NARROW[name]
    code = np.arange(256)
    field, fraction = code >> mantissas & ((1 << exponents) - 1), code & ((1 << mantissas) - 1)
    significand = np.where(field > 0, fraction + (1 << mantissas), fraction).astype(np.float64)
    values = np.ldexp(significand, np.maximum(field, 1) - bias - mantissas)
    if top == "ieee":
        values = np.where(field == (1 << exponents) - 1, np.where(fraction == 0, np.inf, np.nan), values)
    values = np.where(code >= 128, -values, values)
    if top == "last":
        values[[127, 255]] = np.nan
    if top == "minus zero":
        values[128] = np.nan
    return values.astype(np.float32)
