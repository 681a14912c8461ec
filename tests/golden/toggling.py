"""Bits of a set that do not both rise and fall, and the lists of constant bits."""

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from refemu.golden.grade.answers import Answers
from refemu.units.unit import AnyUnit

KEY = re.compile(r"(?:([\w, ]+): )?([\w.]+(?:, [\w.]+)*)(?:\[(some|[\d,-]+)\])? ([\d,-]+)")


@dataclass(frozen=True)
class Constant:
    """Entry of a list: bits of outputs or registers."""

    configs: tuple[str, ...]  #: none: all
    ports: tuple[str, ...]  #: "out.x", "st.y"
    lanes: tuple[int, ...] | None  #: None: all, or some of them
    some: bool  #: other lanes toggle these bits
    bits: int  #: mask


def lists(unit: AnyUnit) -> Mapping[str, str]:
    """Entries of a unit with their reasons."""
    listed = importlib.import_module(f"tests.golden.constant.{unit.paper.split()[0]}")
    return dict(listed.CONSTANT.get(unit.name, {}))


def entry(key: str) -> Constant:
    """Bits named by a key."""
    match = KEY.fullmatch(key)
    assert match, key
    configs, ports, lanes, bits = match.groups()
    some = lanes == "some"
    return Constant(
        tuple(configs.split(", ") if configs else ()),
        tuple(ports.split(", ")),
        tuple(_numbers(lanes)) if lanes and not some else None,
        some,
        reduce(or_, (1 << bit for bit in _numbers(bits))),
    )


def _numbers(text: str) -> Iterator[int]:
    """Parse "0,3-5" as 0, 3, 4, 5."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def steady(answers: Answers) -> dict[str, list[int]]:
    """Bits of each lane that do not both rise and fall within a case where they count, by output and register."""
    follows = answers.before >= 0
    last = answers.before[follows]
    table = {}
    for name, port in (answers.ports | answers.registers).items():
        codes = answers.outputs[name] if name in answers.outputs else answers.held[name]
        full = codes.dtype.type((1 << port.bits) - 1)
        care = answers.care[name] if name in answers.care else np.full_like(codes, full)
        changed = (codes[follows] ^ codes[last]) & care[follows] & care[last]
        rising, falling = (np.bitwise_or.reduce(changed & where[follows], axis=0) for where in (codes, ~codes))
        table[name] = [int(word) for word in full & ~(rising & falling)]
    return table


def differences(bits: Mapping[str, list[int]], config: str, keys: Mapping[str, str]) -> Iterator[str]:
    """Yield unlisted bits that do not toggle, and listed bits that do."""
    entries = [each for each in map(entry, keys) if not each.configs or config in each.configs]
    for name, words in bits.items():
        listed = [each for each in entries if name in each.ports]
        for lane, word in enumerate(words):
            covered = [each for each in listed if each.lanes is None or lane in each.lanes]
            unlisted = word
            for each in covered:
                unlisted &= ~each.bits
                if not each.some and each.bits & ~word:
                    yield f"{name}, lane {lane}: {each.bits & ~word:#x} is listed, and toggles"
            if unlisted:
                yield f"{name}, lane {lane}: {unlisted:#x} does not toggle, and is not listed"
        for each in listed:
            left = each.bits & ~reduce(or_, words)
            if each.some and left:
                yield f"{name}: {left:#x} is listed for some lanes, and toggles in all"
