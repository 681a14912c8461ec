"""Arrays and .npz files that no reader expects."""

import io
import zipfile
from random import Random

import numpy as np


def other_array(rng: Random, array: np.ndarray) -> np.ndarray:
    """Other values, another dtype, another shape."""
    how = rng.randrange(6)
    if how == 0:
        return np.frombuffer(rng.randbytes(array.nbytes), array.dtype).reshape(array.shape)
    if how == 1:
        with np.errstate(all="ignore"):  # fp16 ends below 2**17
            return array.astype(rng.choice(("u1", "u2", "i4", "u8", "f2", "f4", "f8", "?")))
    if how == 2:
        return array[: rng.randrange(len(array))]
    if how == 3:
        return np.concatenate([array] * rng.randint(2, 9))
    if how == 4:
        return array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1))))
    return np.full(array.shape, rng.choice((0, 1, 255)), array.dtype)


def saved(rng: Random, arrays: dict[str, np.ndarray]) -> bytes:
    """An .npz as NumPy writes it, deflated or not."""
    stream = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def with_headers(rng: Random, data: bytes) -> bytes:
    """The container with a different name, header or body for some members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", rng.choice((0, 8, 12, 14))) as new:
        for number, name in enumerate(old.namelist()):
            body = old.read(name)
            if rng.random() < 0.5:
                body = _with_header(rng, body)
            other = rng.choice(("../%d.npy", "%d", "out.%d.npy", "%d\n.npy", "%d/")) % number
            new.writestr(name if rng.random() < 0.9 else other, body)
    return stream.getvalue()


def _with_header(rng: Random, body: bytes) -> bytes:
    """An .npy whose header does not describe its contents."""
    dtype = rng.choice(("|u1", "<u8", "|O", "<f4", "<U3", "|V8", "<M8[s]", "<c16", "|b1", ">u2", "x" * 70, "|u1000"))
    shape = rng.choice(
        (
            "(6,)",
            "(-1,)",
            "(-2, -3)",
            "()",
            "(1099511627776,)",
            "(6, 1)",
            "(0, 9223372036854775808)",
            "(True,)",
            "[6]",
            "(6.0,)",
            "((6,),)",
            "(" * 3000 + "6" + ")" * 3000,
            "6,",
        )
    )
    order = rng.choice(("False", "True", "0"))
    words = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}"
    header = words.encode() + b"\n"
    version = rng.choice(((1, 0), (2, 0), (3, 0), (9, 9)))
    length = len(header) if rng.random() < 0.8 else rng.getrandbits(16)
    size = 2 if version[0] == 1 else 4
    return b"\x93NUMPY" + bytes(version) + length.to_bytes(size, "little") + header + body[128:]
