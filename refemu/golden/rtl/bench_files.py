"""Files for a testbench that are derived from the set: words of registers, and the mask of waived bits.

Each begins with the digest of the set, so that a testbench rejects files of another set, and ends with a sentinel of
all ones.
"""

from collections.abc import Sequence

from refemu.arith.checks import Refused
from refemu.golden.compare import waivers
from refemu.golden.files import fields, hexfile
from refemu.golden.files.sets import Golden


def registers(golden: Golden) -> dict[str, bytes]:
    """`regs.mem`, a word of all registers per row, and `regs.mem.care`, its bits that count."""
    entries = [entry for entry in golden.manifest["arrays"] if entry["role"] == "state"]
    if not entries:
        raise Refused(f"{golden.name}: the set has no registers to compare; leave out REGS")
    care = {entry["name"]: waivers.care(golden, entry["name"]) for entry in entries}
    layout = hexfile.layout(entries)
    sentinel = f"{fields.mask_of(hexfile.width(layout)):x}\n".encode()
    head = _head(golden, "registers")
    return {
        "regs.mem": b"".join([head, *hexfile.lines(layout, golden.arrays), sentinel]),
        "regs.mem.care": b"".join([head, *hexfile.lines(layout, care), sentinel]),
    }


def mask(golden: Golden, words: Sequence[str], left: waivers.Left) -> bytes:
    """`waive.mem`: one word per row, with a 1 for each compared bit. The first line lists `words`, the waived names.

    Outputs are packed as in gold.mem, registers above them as in regs.mem.
    """
    layout = hexfile.layout([golden.array(name) for name in left])
    compared = {name: ~array for name, array in left.items()}
    sentinel = f"{fields.mask_of(hexfile.width(layout)):x}\n".encode()
    return b"".join([_head(golden, ",".join(words)), *hexfile.lines(layout, compared), sentinel])


def _head(golden: Golden, by: str) -> bytes:
    return f"// sha256 {golden.manifest['self_sha256']} by {by}\n".encode()
