"""A set of golden vectors in memory: manifest and arrays, read from and written to its directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.files import case_ids, case_list, fields, hexfile, include, masks, npz
from refemu.golden.files import manifest as manifests
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

MANIFEST, VECTORS, LISTING = "manifest.json", "vectors.npz", "cases.txt"


@dataclass(frozen=True, eq=False, repr=False)
class Golden:
    """Set of golden vectors, checked."""

    manifest: Mapping[str, Any]  #: contents of manifest.json
    arrays: Mapping[str, np.ndarray]  #: by name, unsigned integers, read-only

    @property
    def name(self) -> str:
        """Name of the set, `<unit>-<configuration>`."""
        return str(self.manifest["name"])

    @property
    def config(self) -> str:
        """Configuration: its ready name, or its parameters as text."""
        return manifests.config(self.manifest)

    @property
    def rows(self) -> int:
        """Number of rows of every array."""
        return int(self.manifest["rows"])

    def array(self, name: str) -> Mapping[str, Any]:
        """Item of the manifest's `arrays`.

        Parameters
        ----------
        name : str
            Name of the array.

        Returns
        -------
        mapping
            Item.
        """
        return next(entry for entry in self.manifest["arrays"] if entry["name"] == name)

    def entry(self, row: int) -> Mapping[str, Any]:
        """Item of the manifest's `cases` that holds a row.

        Parameters
        ----------
        row : int
            Number of the row, from 0.

        Returns
        -------
        mapping
            Entry of the row's cases: id, kind, reason, rows.

        Raises
        ------
        Refused
            The row is outside the set.
        """
        if not 0 <= row < self.rows:
            raise Refused(f"{self.name}: row {row} is outside [0, {self.rows})")
        return next(entry for entry in reversed(self.manifest["cases"]) if entry["first"] <= row)

    def case(self, row: int) -> int:
        """Id of the case that holds a row: the number of its first row.

        Parameters
        ----------
        row : int
            Row.

        Returns
        -------
        int
            Id.

        Raises
        ------
        Refused
            The row is outside the set.
        """
        entry = self.entry(row)
        return int(row - (row - entry["first"]) % entry["rows"])

    def case_id(self, row: int) -> str:
        """Id of the case that holds a row, stable when other cases are added or removed.

        Parameters
        ----------
        row : int
            Row.

        Returns
        -------
        str
            "edge/ties-of-either-sign/3".

        Raises
        ------
        Refused
            The row is outside the set.
        """
        self.entry(row)
        return case_ids.id_of(self.manifest, row)

    def __repr__(self) -> str:
        return f"<Golden {self.name}: {self.rows} rows of {', '.join(self.arrays)}>"


@checked
def load(path: str | Path) -> Golden:
    """Load a set and check its manifest and hashes. Nothing is unpickled.

    Parameters
    ----------
    path : str or Path
        Directory of the set, or its manifest.

    Returns
    -------
    Golden
        Manifest and arrays.

    Raises
    ------
    Refused
        The manifest is missing, changed or of an unknown schema, or the vectors are not exactly the arrays it lists.
    """
    folder = Path(path)
    folder = folder.parent if folder.name == MANIFEST else folder
    if not folder.exists():
        raise Refused(f"{folder}: no such folder")
    if not (folder / MANIFEST).is_file():
        raise Refused(f"{folder}: no {MANIFEST}; a golden set is a folder that `refemu generate` writes")
    with reading(str(folder), "a readable set"):
        manifest = manifests.parse((folder / MANIFEST).read_bytes(), f"{folder / MANIFEST}")
        if not (folder / VECTORS).is_file():
            raise Refused(f"{folder}: {VECTORS} is missing")
        with (folder / VECTORS).open("rb") as stream:
            return Golden(manifest, arrays_of(manifest, stream, f"{folder / VECTORS}"))


def arrays_of(manifest: Mapping[str, Any], data: bytes | BinaryIO, thing: str) -> dict[str, np.ndarray]:
    """The arrays in an .npz, its bytes or an open file, which must be exactly those of `manifest`, in its order."""
    archive = npz.Archive(data, thing)
    listed = {entry["name"]: entry for entry in manifest["arrays"]}
    for word, names in (
        ("missing", sorted(set(listed) - set(archive.names))),
        ("not in the manifest", sorted(set(archive.names) - set(listed))),
    ):
        if names:
            raise Refused(f"{thing}: {', '.join(names)}: {word}")
    for name, entry in listed.items():  # all headers before the first content
        _require_header(archive.header(name), entry, f"{thing}: {name}")
    arrays = {name: archive.array(name) for name in listed}
    for name, entry in listed.items():
        _require_as_listed(arrays[name], entry, f"{thing}: {name}")
    return arrays


def _require_header(header: npz.Header, entry: Mapping[str, Any], thing: str) -> None:
    if header.dtype.str[1:] != entry["dtype"]:
        raise Refused(f"{thing}: dtype must be {entry['dtype']}, got {header.dtype.str[1:]}")
    if list(header.shape) != entry["shape"]:
        raise Refused(f"{thing}: shape must be {tuple(entry['shape'])}, got {header.shape}")


def _require_as_listed(array: np.ndarray, entry: Mapping[str, Any], thing: str) -> None:
    if manifests.array_sha256(array) != entry["sha256"]:
        raise Refused(f"{thing}: does not match its sha256")
    if entry["bits"] < 8 * array.dtype.itemsize and (array >> array.dtype.type(entry["bits"])).any():
        raise Refused(f"{thing}: holds codes of more than {entry['bits']} bits")
    if entry["role"] == "mask":
        masks.require_whole(array, entry["bits"], entry.get("partial", ""), thing)


def render(
    manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], hex: bool = False, bin: bool = False
) -> dict[str, bytes]:
    """Every file of a set: path in its directory -> content. The manifest gets its exports and its digest.

    manifest, arrays: from `build.build`. hex, bin: whether to export `hex/` or `bin/`, both with headers.
    """
    files: dict[str, bytes] = {VECTORS: npz.to_bytes(arrays)}
    if any(entry["kind"] in case_list.KINDS for entry in manifest["cases"]):
        files[LISTING] = case_list.render(manifest, arrays)
    described = {**manifest, "hex": {}, "bin": {}}
    for name, (layout, data) in (hexfile.files(manifest, arrays) if hex else {}).items():
        bits = hexfile.width(layout)
        described["hex"][name] = {
            "word_bits": bits,
            "digits": -(-bits // 4),
            "fields": layout,
            "sha256": manifests.sha256(data),
        }
        files[f"hex/{name}"] = data
    for name, data in (_raw(_with_first(manifest, arrays)) if bin else {}).items():
        described["bin"][name] = {
            "array": name.removesuffix(".bin"),
            "bytes": len(data),
            "sha256": manifests.sha256(data),
        }
        files[f"bin/{name}"] = data
    sealed = manifests.validated(manifests.sealed(described), str(manifest["name"]))
    if hex or bin:
        files |= {f"include/{name}": data for name, data in include.files(sealed).items()}
    return {MANIFEST: manifests.canonical(sealed), **dict(sorted(files.items()))}


def _raw(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    """Files for C and CUDA, `<array>.bin` -> bytes: C order, little-endian, no header."""
    return {
        f"{name}.bin": np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        for name, array in arrays.items()
    }


def _with_first(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`arrays`, and for a unit with registers `first`, the top bit of the words of `stim.mem`."""
    return {**arrays, **({"first": hexfile.case_starts(manifest)} if manifest["timing"] == "event" else {})}


def port_of(entry: Mapping[str, Any]) -> Port:
    """The port of an item of the manifest's `arrays`; one lane is a scalar, as in files."""
    return Port(
        entry["name"].partition(".")[2] or entry["name"],
        entry["bits"],
        entry["lanes"] if entry["lanes"] > 1 else None,
        entry["signed"],
        entry["encoding"],
        entry["meaning"],
    )


def inputs(golden: Golden, unit: AnyUnit, first: int, cases: int, rows: int) -> dict[str, np.ndarray]:
    """Stimulus of `cases` cases of `rows` rows from row `first`, by port: values, as `Cases.inputs` has them."""
    arrays = {}
    for port in unit.ports(unit.config(golden.config)).inputs:
        values = fields.decode(golden.arrays[f"in.{port.name}"][first : first + cases * rows], port)
        arrays[port.name] = values.reshape(cases, rows, *port.shape) if unit.timing == "event" else values
    return arrays


@checked
def case_inputs(golden: Golden, case: int, unit: AnyUnit) -> tuple[str, dict[str, np.ndarray]]:
    """Configuration and inputs of one case, as `Unit.trace` takes them.

    Parameters
    ----------
    golden : Golden
        Set.
    case : int
        Number of its first row.
    unit : Unit
        Unit of the set.

    Returns
    -------
    config : str
        Name of the configuration.
    inputs : dict of ndarray
        By port, (rows,) and lanes.

    Raises
    ------
    Refused
        Another unit, or a row that is not the first of a case.
    """
    if golden.manifest["unit"] != unit.key:
        raise Refused(f"{golden.name}: must be a set of {unit.key}, got one of {golden.manifest['unit']}")
    if golden.case(case) != case:
        raise Refused(f"{golden.name}: row {case} is inside case {golden.case(case)}; give {golden.case(case)}")
    rows = golden.entry(case)["rows"]
    arrays = inputs(golden, unit, case, 1, rows)
    return golden.config, {
        name: array[0] if golden.manifest["timing"] == "event" else array for name, array in arrays.items()
    }
