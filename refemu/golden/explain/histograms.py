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
        count, by_lane, by_bit = 0, np.zeros(port.count, np.int64), np.zeros(port.bits, np.int64)
        for _, unlike in answer.pieces(golden, name):
            unlike = unlike[(unlike != 0).any(axis=1)]
            count += len(unlike)
            by_lane += np.count_nonzero(unlike, axis=0)
            by_bit += [np.count_nonzero(unlike & unlike.dtype.type(1 << bit)) for bit in range(port.bits)]
        if count:
            ports[port.name], lanes[port.name], bits[port.name] = count, _counts(by_lane), _counts(by_bit)
    kinds: dict[str, int] = {}
    for entry in golden.manifest["cases"]:
        count = int(np.count_nonzero(rows[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]]))
        if count:
            kinds[entry["kind"]] = kinds.get(entry["kind"], 0) + count
    return Where(ports, lanes, bits, kinds, flags)


def _counts(counts: np.ndarray) -> dict[int, int]:
    return {int(place): int(counts[place]) for place in np.flatnonzero(counts)}
