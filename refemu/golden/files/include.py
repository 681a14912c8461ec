"""Headers with counts, widths, offsets and parameters, for C (`<unit>_vec.h`) and SystemVerilog (`<unit>_vec.svh`).

The first line of the `.svh` has the name and digest of the set, which testbenches read when they run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from refemu.arith.checks import Refused
from refemu.golden.files import hexfile
from refemu.golden.files.manifest import unit_name

_C_TYPES = {"u1": "uint8_t", "u2": "uint16_t", "u4": "uint32_t", "u8": "uint64_t"}
_PREFIX = {"stimulus": "", "expected": "", "state": "ST_"}


def files(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Both headers, from the sealed manifest alone: file name -> content."""
    unit = unit_name(manifest)
    return {f"{unit}_vec.h": _text(_c_lines(manifest)), f"{unit}_vec.svh": _text(_verilog_lines(manifest))}


def _text(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _c_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    unit = unit_name(manifest).upper()
    first = ";\n   first.bin one uint8_t a row, 1 = reset before it" if manifest["timing"] == "event" else ""
    yield f"/* {manifest['name']}: every file of bin/ holds {unit}_ROWS x LANES values of its TYPE, little-endian;"
    yield f"   a .care file has the TYPE and LANES of its array, flags.bin one {unit}_ROW_FLAGS_TYPE a row{first}. */"
    yield f"#ifndef {unit}_VEC_H"
    yield f"#define {unit}_VEC_H"
    yield "#include <stdint.h>"
    for name, value in _unique(_c_values(manifest), manifest["name"]):
        yield f"#define {unit}_{name} {value}"
    yield "#endif"


def _c_values(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    masks = {entry["name"] for entry in manifest["arrays"] if entry["role"] == "mask"}
    yield "SET", f'"{manifest["name"]}"'
    yield "SHA256", f'"{manifest["self_sha256"]}"'
    yield "ROWS", str(manifest["rows"])
    for name, entry in _ports(manifest):
        yield f"{name}_BITS", str(entry["bits"])
        yield f"{name}_LANES", str(entry["lanes"])
        yield f"{name}_TYPE", _C_TYPES[entry["dtype"]]
        if entry["role"] != "stimulus":  # whether a .care file says which bits count
            yield f"{name}_HAS_CARE", str(int(f"{entry['name']}.care" in masks))
    (flags,) = (entry for entry in manifest["arrays"] if entry["role"] == "flags")
    yield "ROW_FLAGS_TYPE", _C_TYPES[flags["dtype"]]  # of flags.bin; a port may be called `flags`
    for name, flag in sorted(manifest["flags"].items()):
        yield f"FLAG_{name}", f"{1 << flag['bit']:#x}u"
    yield from _parameters(manifest["config"], "CONFIG_")


def _verilog_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield f"// {manifest['name']} sha256 {manifest['self_sha256']}"
    yield "// Include inside the module. Lane k of a port: PORT_LSB + k * PORT_BITS."
    for name, value in _unique(_verilog_values(manifest), manifest["name"]):
        yield f"localparam {name} = {value};"


def _verilog_values(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    stimulus, expected = (
        [entry for entry in manifest["arrays"] if entry["role"] == role] for role in ("stimulus", "expected")
    )
    event = manifest["timing"] == "event"
    masks = [entry for entry in manifest["arrays"] if entry["role"] == "mask" and entry["name"].startswith("out.")]
    yield "N", str(manifest["rows"])
    yield "HAS_CARE", str(int(bool(masks)))
    for name, layout in (("STIM", hexfile.layout(stimulus, event)), ("GOLD", hexfile.layout(expected))):
        yield f"{name}_BITS", str(hexfile.width(layout))
        for field in (field for field in layout if field["lane"] == 0):
            yield f"{_upper(field['name'])}_LSB", str(field["lsb"])
            yield f"{_upper(field['name'])}_BITS", str(field["bits"])
            yield f"{_upper(field['name'])}_LANES", str(_lanes(layout, field["name"]))
    yield from _parameters(manifest["config"], "CONFIG_")


def _lanes(layout: list[dict[str, Any]], name: str) -> int:
    return len([field for field in layout if field["name"] == name])


def _ports(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in manifest["arrays"]:
        if entry["role"] in _PREFIX:
            yield _PREFIX[entry["role"]] + _upper(entry["name"]), entry


def _upper(name: str) -> str:
    return name.rpartition(".")[2].upper()


def _parameters(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """The unit's parameters: integers unchanged, strings quoted, lists item by item."""
    for name, value in sorted(config.items()):
        label = f"{prefix}{name}".upper()
        if isinstance(value, Mapping):
            yield from _parameters(value, f"{label}_")
        elif isinstance(value, list):
            yield from _parameters({str(position): item for position, item in enumerate(value)}, f"{label}_")
        else:
            yield label, str(int(value)) if isinstance(value, int) else f'"{value}"'


def _unique(values: Iterator[tuple[str, str]], name: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for label, value in values:
        if label in seen:
            raise Refused(f"{name}: two ports or parameters would both be called {label} in the header")
        seen.add(label)
        yield label, value
