"""Histograms of the words that differ: by port, lane, bit, kind of case and flag."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from refemu.golden.compare import answer_files
from refemu.golden.files import sets
from refemu.golden.files.sets import Golden


@dataclass(frozen=True)
class Where:
    """Places where a device differs: rows by port, kind and flag, words by lane and bit of each port."""

    ports: Mapping[str, int] = field(default_factory=dict)  #: output -> rows
    lanes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: output -> lane -> words
    bits: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  #: output -> bit -> words
    kinds: Mapping[str, int] = field(default_factory=dict)  #: kind of case -> rows
    flags: Mapping[str, int] = field(default_factory=dict)  #: flag -> rows that carry it; "" for rows without any


def where(golden: Golden, answer: answer_files.Answer, rows: np.ndarray, flags: Mapping[str, int]) -> Where:
    """Histograms over all rows. rows: bool, True if different; flags: from `Difference.flags`."""
    ports, lanes, bits = {}, {}, {}
    for name in answer.arrays:
        port = sets.port_of(golden.array(name))
        unlike = answer.differing(golden, name).reshape(golden.rows, -1)
        unlike = unlike[(unlike != 0).any(axis=1)]
        if len(unlike):
            ports[port.name] = len(unlike)
            lanes[port.name] = _counts(np.count_nonzero(unlike, axis=0))
            bits[port.name] = {
                bit: count
                for bit in range(port.bits)
                if (count := int(np.count_nonzero(unlike >> unlike.dtype.type(bit) & unlike.dtype.type(1))))
            }
    kinds: dict[str, int] = {}
    for entry in golden.manifest["cases"]:
        count = int(np.count_nonzero(rows[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]]))
        if count:
            kinds[entry["kind"]] = kinds.get(entry["kind"], 0) + count
    return Where(ports, lanes, bits, kinds, flags)


def _counts(counts: np.ndarray) -> dict[int, int]:
    return {int(place): int(counts[place]) for place in np.flatnonzero(counts)}
