"""What the 32 threads of a warp read of a page, byte by byte, and the 32-byte sectors that hold it [leankv §6.2].

The layouts are tables here: every place of a segment in turn, with its element. Threads look their
elements up in them.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

SECTOR = 32
THREADS = range(32)


class Page(NamedTuple):
    """Slots and first bytes of a page, bits and groups of its vectors, constants of the layouts."""

    slots: int
    features: int
    bits: tuple[int, int]  #: of keys, of values
    groups: tuple[int, int]
    offsets: dict[str, int]
    k_vec: int = 4
    k_group: int = 4
    v_vec: int = 2
    v_group: int = 8


Bits = range  #: of the page, one after the other
Load = tuple[str, dict[int, Bits]]  #: segment; what each thread reads


def elements(page: Page, side: int, packs: bool) -> tuple[int, int]:
    """How many elements a vector has, and their bits."""
    return (page.features * page.bits[side] // 16, 16) if packs else (page.features, page.bits[side])


def key_places(page: Page, order: str, count: int) -> dict[tuple[int, int], int]:
    """(slot, element) -> number of the place."""
    if order == "paper":
        rows = count // (page.k_vec * page.k_group)
        axes = range(rows), range(page.slots), range(page.k_group), range(page.k_vec)
        listed = [(slot, (member * rows + row) * page.k_vec + e) for row, slot, member, e in product(*axes)]
    elif order == "token_major":
        listed = list(product(range(page.slots), range(count)))
    else:
        listed = [(slot, e) for e, slot in product(range(count), range(page.slots))]
    return {element: place for place, element in enumerate(listed)}


def value_places(page: Page, order: str, count: int) -> dict[tuple[int, int], int]:
    """(slot, element) -> number of the place; slots fill up to whole vectors of them."""
    slots = -(-page.slots // page.v_vec) * page.v_vec
    if order == "paper":
        rows = count // page.v_group
        axes = range(rows), range(slots // page.v_vec), range(page.v_group), range(page.v_vec)
        listed = [(block * page.v_vec + e, member * rows + row) for row, block, member, e in product(*axes)]
    elif order == "token_major":
        listed = list(product(range(slots), range(count)))
    else:
        listed = [(slot, e) for e, slot in product(range(count), range(slots))]
    return {element: place for place, element in enumerate(listed)}


def loads(page: Page, tokens: int, order: str = "paper", packs: bool = True) -> Iterator[Load]:
    """Every load of the warp, empty ones left out."""
    for segment, threads in (*keys(page, tokens, order, packs), *values(page, tokens, order, packs)):
        if threads:
            yield segment, threads
    for segment in ("score", "pos"):
        for first in range(0, tokens, 32):
            yield segment, {t: word(page.offsets[segment], first + t) for t in THREADS if first + t < tokens}


def word(byte: int, number: int) -> Bits:
    """32 bits of an array that begins at a byte."""
    return range(8 * byte + 32 * number, 8 * byte + 32 * number + 32)


def runs(places: list[int]) -> bool:
    return places == list(range(places[0], places[0] + len(places)))


def keys(page: Page, tokens: int, order: str, packs: bool) -> Iterator[Load]:
    count, bits = elements(page, 0, packs)
    places, base = key_places(page, order, count), 8 * page.offsets["key"]
    own = count // page.k_group
    for first in range(0, tokens, 32 // page.k_group):
        tasks = {t: (first + t // page.k_group, t % page.k_group) for t in THREADS}
        tasks = {t: task for t, task in tasks.items() if task[0] < tokens}
        if page.groups[0]:
            yield (
                "key_meta",
                {
                    t: word(
                        page.offsets["key_meta"], slot * page.groups[0] + member // (page.k_group // page.groups[0])
                    )
                    for t, (slot, member) in tasks.items()
                },
            )
        for begin in range(0, own, page.k_vec):
            wanted = {
                t: [places[slot, member * own + begin + e] for e in range(page.k_vec)]
                for t, (slot, member) in tasks.items()
            }
            yield from split("key", wanted, base, bits)


def values(page: Page, tokens: int, order: str, packs: bool) -> Iterator[Load]:
    count, bits = elements(page, 1, packs)
    places, base = value_places(page, order, count), 8 * page.offsets["val"]
    own, rows = count // page.v_group, 32 // page.v_group
    for first in range(0, tokens, rows * page.v_vec):
        tasks = {t: (first + t // page.v_group * page.v_vec, t % page.v_group) for t in THREADS}
        tasks = {t: task for t, task in tasks.items() if task[0] < tokens}
        for e in range(page.v_vec):
            if page.groups[1]:
                yield (
                    "val_meta",
                    {
                        t: word(
                            page.offsets["val_meta"],
                            (slot + e) * page.groups[1] + member // (page.v_group // page.groups[1]),
                        )
                        for t, (slot, member) in tasks.items()
                        if slot + e < tokens
                    },
                )
        for i in range(own):
            wanted = {
                t: [places[slot + e, member * own + i] for e in range(page.v_vec)]
                for t, (slot, member) in tasks.items()
            }
            if order == "token_major":  # of a slot that holds no token nothing is read
                yield from (
                    (
                        "val",
                        {
                            t: range(base + at[e] * bits, base + at[e] * bits + bits)
                            for t, at in wanted.items()
                            if tasks[t][0] + e < tokens
                        },
                    )
                    for e in range(page.v_vec)
                )
            else:
                yield from split("val", wanted, base, bits)


def split(segment: str, wanted: dict[int, list[int]], base: int, bits: int) -> Iterator[Load]:
    """One load where the places of every thread follow each other, else one for each."""
    if all(runs(places) for places in wanted.values()):
        yield segment, {t: range(base + at[0] * bits, base + (at[-1] + 1) * bits) for t, at in wanted.items()}
        return
    for e in range(len(next(iter(wanted.values())))):
        yield segment, {t: range(base + at[e] * bits, base + (at[e] + 1) * bits) for t, at in wanted.items()}


def sectors(load: Load, base: int = 0) -> int:
    """Different sectors of all bytes that are read, of a page at byte `base`."""
    spans = (range(base + bits.start // 8, base + (bits.stop + 7) // 8) for bits in load[1].values())
    return len({byte // SECTOR for span in spans for byte in span})


def least(load: Load) -> int:
    """Sectors of as many bits side by side."""
    return -(-sum(len(bits) for bits in set(load[1].values())) // (8 * SECTOR))


def traffic(page: Page, tokens: int, order: str = "paper", packs: bool = True, base: int = 0) -> dict[str, list[int]]:
    """Loads, sectors, least sectors by segment."""
    found = {name: [0, 0, 0] for name in ("key", "key_meta", "val", "val_meta", "score", "pos")}
    for load in loads(page, tokens, order, packs):
        for i, more in enumerate((1, sectors(load, base), least(load))):
            found[load[0]][i] += more
    return found
