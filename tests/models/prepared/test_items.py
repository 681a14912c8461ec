"""Items appear complete or not at all; damaged ones are rejected with the next step."""

import errno
import os
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import checked_json
from refemu.arith.checks import Refused
from refemu.models.prepared import items
from refemu.models.weights import digests

ARRAYS = {
    "values": np.arange(3 * 7 * 4096, dtype=np.uint16).reshape(3, 7, 4096),
    "scale": np.linspace(0, 1, 5, dtype=np.float32),
    "peak": np.array(2.5),
    "none": np.empty((0, 4), np.int64),
    "halves": np.arange(6, dtype=np.float16).reshape(2, 3),
}
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "blk.0.q+blk.0.k"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_arrays_are_read_unchanged_and_large_ones_mapped(place: Path) -> None:
    items.write(place, ARRAYS)
    arrays = items.read(place)

    assert arrays is not None and list(arrays) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert arrays[name].tobytes() == array.tobytes() and not arrays[name].flags.writeable
        assert type(arrays[name]) is np.ndarray
    assert isinstance(arrays["values"].base, np.memmap) and arrays["values"].ctypes.data % 64 == 0
    assert items.read(place.with_name("other")) is None
    items.check(place)


def test_item_written_twice_is_that_of_first(place: Path) -> None:
    items.write(place, {"a": np.arange(3)})
    items.write(place, {"a": np.arange(4)})

    arrays = items.read(place)
    assert arrays is not None and len(arrays["a"]) == 3 and names(place.parent) == [place.name]


def flip(file: Path, keep_stamp: bool = False) -> None:
    """Change one bit of the last byte."""
    before = file.stat()
    with file.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)[0]
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last ^ 1]))
    if keep_stamp:
        os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))


def test_changed_bit_is_rejected_with_both_hashes(place: Path) -> None:
    items.write(place, ARRAYS)
    flip(place / "values.npy")

    with pytest.raises(Refused, match=r"values.npy: damaged: sha256 is .*, .* was written; .*run: refemu models prune"):
        items.read(place)
    assert names(place) == sorted([*(f"{name}.npy" for name in ARRAYS), items.DESCRIPTION])


def test_check_finds_changed_bit_with_unchanged_date(place: Path) -> None:
    items.write(place, ARRAYS)
    flip(place / "values.npy", keep_stamp=True)

    assert items.read(place) is not None  # the price of a start that reads no file
    with pytest.raises(Refused, match="damaged: sha256 is"):
        items.check(place)


def test_a_copied_item_is_digested_and_taken(place: Path, tmp_path: Path) -> None:
    items.write(place, ARRAYS)
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)

    arrays = items.read(copy)
    assert arrays is not None and arrays["values"].tobytes() == ARRAYS["values"].tobytes()


def spoil(place: Path, how: str) -> None:
    description = place / items.DESCRIPTION
    known = checked_json.load(description)
    assert known is not None
    if how == "cut":
        os.truncate(place / "values.npy", 1000)
    elif how == "missing array":
        (place / "values.npy").unlink()
    elif how == "missing description":
        description.unlink()
    elif how == "description cut":
        description.write_text(description.read_text()[:20])
    elif how == "edited":
        description.write_text(description.read_text().replace("values", "../../x"))
    elif how == "nested":
        description.write_text("[" * 200_000)
    elif how == "version":
        description.write_bytes(checked_json.dump(known | {"version": items.VERSION + 1}))
    elif how == "a file":
        shutil.rmtree(place)
        place.touch()
    elif how == "pickled":
        np.save(place / "peak.npy", np.array([{"a": 1}], object), allow_pickle=True)
        sha256 = digests.read(place / "peak.npy")
        known["arrays"]["peak"] = {"sha256": sha256, "stamp": list(digests.stamp(place / "peak.npy"))}
        description.write_bytes(checked_json.dump(known))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "values.npy: damaged: sha256 is"),
        ("missing array", "values.npy: .*(No such file|missing)"),
        ("missing description", "damaged: item.json is missing"),
        ("description cut", "damaged: item.json is missing or not what was written"),
        ("edited", "damaged: item.json is missing or not what was written"),
        ("nested", "damaged: item.json is missing or not what was written"),
        ("a file", "damaged: item.json is missing or not what was written"),
        ("version", f"prepared in version {items.VERSION + 1}, {items.VERSION} is needed"),
        ("pickled", "peak.npy: damaged: Object arrays cannot be loaded when allow_pickle=False"),
    ],
)
def test_whatever_is_damaged_is_rejected(how: str, message: str, place: Path) -> None:
    items.write(place, ARRAYS)
    spoil(place, how)

    with pytest.raises(Refused, match=message):
        items.read(place)


def test_full_disk_is_rejected_before_anything_is_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**12, 10**12 - items.SPARE, items.SPARE))

    with pytest.raises(
        Refused, match=r"not enough disk space for a prepared model: 269 MB are needed, 268 MB are free; free some"
    ):
        items.write(place, ARRAYS)
    assert names(place.parent) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fills_leaves_nothing(code: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_array = items._write_array

    def fails(file: Path, array: np.ndarray) -> dict[str, Any]:
        if file.name == "halves.npy":
            file.write_bytes(b"half")
            raise OSError(code, os.strerror(code), str(file))
        return write_array(file, array)

    monkeypatch.setattr(items, "_write_array", fails)

    with pytest.raises(Refused, match=r"set REFEMU_HOME .* or REFEMU_PREPARED=0 .* No incomplete file remains"):
        items.write(place, ARRAYS)
    assert names(place.parent) == []


def test_a_file_system_that_really_fills_leaves_nothing(place: Path) -> None:
    """A limit on file size replaces a full disk: the system itself does not write."""
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(Refused, match=r"File too large; .*No incomplete file remains"):
            items.write(place, ARRAYS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert names(place.parent) == []


def test_item_written_by_another_process_is_complete(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for its description and the one for its folder."""
    items.write(place, ARRAYS)
    hidden, exists = place.with_name("hidden"), Path.exists
    place.rename(hidden)

    def appears(path: Path, **options: Any) -> bool:
        if path == place and exists(hidden):
            hidden.rename(place)
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", appears)
    found = items.read(place)

    assert found is not None and np.array_equal(found["scale"], ARRAYS["scale"])
