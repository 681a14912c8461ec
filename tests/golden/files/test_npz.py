"""Equal arrays give equal bytes, and invalid files give an error."""

import hashlib
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from refemu.arith.checks import Refused
from refemu.golden.files import npz

ARRAYS = {"a": np.arange(1000, dtype="<u2"), "b": np.arange(64) % 3 == 0}
DTYPES = st.sampled_from([np.dtype(name) for name in ("u1", "u2", "u4", "u8", "i4", "f2", "f4", "?")])


def test_bytes_have_a_fixed_digest() -> None:
    assert hashlib.sha256(npz.to_bytes(ARRAYS)).hexdigest().startswith("7bf2f3e1068430e4")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(dict(reversed(ARRAYS.items())), id="other order"),
        pytest.param({**ARRAYS, "a": ARRAYS["a"].astype(">u2")}, id="big-endian"),
        pytest.param({**ARRAYS, "a": np.repeat(ARRAYS["a"], 2)[::2]}, id="strided"),
    ],
)
def test_equal_arrays_give_equal_bytes(other: dict[str, np.ndarray]) -> None:
    assert npz.to_bytes(ARRAYS) == npz.to_bytes(other)


def test_fortran_order_is_stored_in_c_order() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)

    assert npz.to_bytes({"a": array}) == npz.to_bytes({"a": np.asfortranarray(array)})


@given(array=DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0))))
def test_numpy_reads_the_same_arrays(array: np.ndarray) -> None:
    data = npz.to_bytes({"x.y_1": array})
    found = npz.read(data, "set")["x.y_1"]
    with np.load(io.BytesIO(data), allow_pickle=False) as reference:
        same = reference["x.y_1"]

    assert (array.dtype, array.shape, array.tobytes()) == (found.dtype, found.shape, found.tobytes())
    assert (same.dtype, same.shape, same.tobytes()) == (found.dtype, found.shape, found.tobytes())


def test_write_saves_the_same_bytes(tmp_path: Path) -> None:
    npz.write(tmp_path / "a.npz", ARRAYS)

    assert npz.to_bytes(ARRAYS) == (tmp_path / "a.npz").read_bytes()


def test_deflated_file_has_the_same_arrays() -> None:
    """Sets in git: `stored` restores the bytes of `to_bytes`, for this and for another build of zlib."""
    whole = npz.to_bytes({"a": np.arange(999) % 3, "b": np.zeros((2, 999), np.uint8)})
    small, other = npz.deflated(whole, "set"), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name), compresslevel=1)

    assert 4 * len(small) < len(whole) and npz.deflated(small, "set") == small
    for data in (small, other.getvalue(), whole):
        assert npz.stored(data, whole, "set") == whole
    changed = npz.to_bytes({"a": np.arange(999) % 4, "b": np.zeros((2, 999), np.uint8)})
    assert npz.stored(npz.deflated(changed, "set"), whole, "set") == changed


def test_other_files_are_unchanged_by_stored() -> None:
    mixed = io.BytesIO()
    with zipfile.ZipFile(mixed, "w") as target:
        target.writestr("a.npy", member(np.zeros(9)), zipfile.ZIP_DEFLATED)
        target.writestr("b.npy", member(np.zeros(9)))
    for data in (mixed.getvalue(), b"", npz.deflated(WHOLE, "set")[:-9], npz.deflated(WHOLE, "set")):
        assert npz.stored(data, mixed.getvalue(), "set") is data
    longer = npz.deflated(npz.to_bytes({name: np.repeat(array, 2, axis=0) for name, array in ARRAYS.items()}), "set")
    assert npz.stored(longer, WHOLE, "set") is longer


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy_are_read(save: object) -> None:
    stream = io.BytesIO()
    save(stream, fortran=np.asfortranarray(np.arange(6).reshape(2, 3)), big=np.arange(3, dtype=">u4"))  # type: ignore[operator]
    found = npz.read(stream.getvalue(), "dut")

    assert found["fortran"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["fortran"].flags.c_contiguous
    assert (np.dtype(np.uint32), [0, 1, 2]) == (found["big"].dtype, found["big"].tolist())


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        npz.read(npz.to_bytes(ARRAYS), "set")["a"][0] = 1


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        pytest.param("a/b", np.zeros(1), "array names hold", id="folder"),
        pytest.param("A", np.zeros(1), "array names hold", id="capital"),
        pytest.param("a", np.zeros(()), "must have an axis", id="no axis"),
        pytest.param("a", np.array([None]), "must have an axis and hold numbers", id="object"),
        pytest.param("a", np.array(["x"]), "hold numbers", id="text"),
    ],
)
def test_writer_rejects_invalid_arrays(name: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(Refused, match=message):
        npz.to_bytes({name: array})


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        for name, body in members.items():
            target.writestr(name.replace("__", "."), body)
    return stream.getvalue()


def member(array: np.ndarray, pickles: bool = False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=pickles)
    return stream.getvalue()


class Bomb:
    """An object that fails the test when unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was read",)


def twice() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr("a.npy", member(np.zeros(1)))
        with pytest.warns(UserWarning, match="Duplicate"):
            target.writestr("a.npy", member(np.zeros(1)))
    return stream.getvalue()


def header(*shape: int) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<u8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


WHOLE = npz.to_bytes(ARRAYS)
BAD = [
    pytest.param(b"", "not a readable .npz", id="empty"),
    pytest.param(b"some text\n", "not a readable .npz", id="text"),
    pytest.param(WHOLE[:-1], "not a readable .npz", id="a byte short"),
    pytest.param(WHOLE[: len(WHOLE) // 2], r"not a readable .npz \(truncated, damaged .*; write it again", id="half"),
    pytest.param(WHOLE.replace(b"\x01\x00\x02\x00", b"\x01\x00\x03\x00", 1), "Bad CRC-32", id="checksum"),
    pytest.param(pickle.dumps(ARRAYS), "not a readable .npz", id="pickle"),
    pytest.param(member(np.zeros(3)), "not a readable .npz", id="npy"),
    pytest.param(archive(a__npy=member(np.array([Bomb()], object), True)), "a: is pickled", id="pickled array"),
    pytest.param(archive(a__npy=member(np.array(["x"]))), "is not a number", id="strings"),
    pytest.param(archive(a__txt=b"hello"), r"member 'a.txt' is not <array>.npy", id="foreign member"),
    pytest.param(archive(A__npy=member(np.zeros(1))), "with a name of", id="capital"),
    pytest.param(archive(a__npy=b"hello"), "no .npy header", id="no header"),
    pytest.param(archive(a__npy=member(np.zeros(3))[:-1]), "needs 24 bytes, the file has 23", id="short array"),
    pytest.param(archive(a__npy=member(np.zeros(3)) + b"x"), "needs 24 bytes, the file has 25", id="long array"),
    pytest.param(archive(a__npy=header(1 << 40)), "needs 8796093022208 bytes, the file has 0", id="huge"),
    pytest.param(archive(a__npy=header(0, 1 << 70)), "is invalid: ", id="beyond"),
    pytest.param(archive(a__npy=header(-1)), "needs -8 bytes", id="negative"),
    pytest.param(twice(), "array names must be unique, got a twice", id="twice"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_reader_rejects_invalid_files(data: bytes, message: str) -> None:
    with pytest.raises(Refused, match=f"^set: .*{message}"):
        npz.read(data, "set")


def test_truncation_anywhere_is_rejected() -> None:
    small = npz.to_bytes({"a": np.arange(3, dtype=np.uint8)})

    for length in range(len(small)):
        with pytest.raises(Refused):
            npz.read(small[:length], "set")
