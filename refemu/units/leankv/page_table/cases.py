"""Golden cases of page_table: [leankv Fig. 5] cell by cell first, then runs that touch, empty and full entries."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, sequences, uniform

CLEAR, APPEND, SPLIT, TOKENS, LOOKUP = range(5)
NAMES = ("op", "entry", "section", "value", "other")


def paper(config: Config) -> Blocks:
    prompts = [(APPEND, entry, 0, 4 * entry + page, 0) for entry in (0, 1) for page in range(4)]
    kept = [(SPLIT, 0, 0, 1, 1), (SPLIT, 1, 0, 2, 1), (TOKENS, 0, 0, 2, 4), (TOKENS, 1, 0, 4, 3)]
    lookups = [(LOOKUP, 0, 1, 0, 0), (LOOKUP, 1, 0, 1, 0), (CLEAR, 1, 0, 0, 0)]
    why = "[leankv Fig. 5] four pages for each of two heads; 1 + 1 and 2 + 1 remain"
    yield why, sequences(NAMES, [prompts + kept + lookups])


def edge(config: Config) -> Blocks:
    cells, clear = config["cells"], (CLEAR, 0, 0, 0, 0)
    starts = [[(APPEND, 0, 0, 9, 0), (APPEND, 1, 1, 8, 0), (TOKENS, 0, 0, 1, 0)], [(TOKENS, 0, 0, 2, 3)] * 3]
    starts.append([(TOKENS, 1, 1, 3, 2), (APPEND, 1, 0, 7, 0), (LOOKUP, 1, 0, 0, 0)])
    yield "a history that is cut off, and others that begin with empty entries", sequences(NAMES, starts)
    apart = [(APPEND, 1, 0, 5, 0), (TOKENS, 0, 0, 0, 1), (APPEND, 1, 0, 6, 0), (APPEND, 1, 0, 7, 0)]
    apart += [(SPLIT, 1, 0, 1, 1), (TOKENS, 0, 0, 1, 0)]
    yield "one entry grows and is split, another stays empty", sequences(NAMES, [apart])
    sides = (0, cells // 2), (1, -(-cells // 2))
    looks = [(LOOKUP, 0, section, page, 0) for section, count in sides for page in range(count)]
    words = (0, 0x7FFF_FFFF, 0x5555_5555, 0x2AAA_AAAA)
    wide = [[(APPEND, 0, int(page >= cells // 2), word ^ page, 0) for page in range(cells)] for word in words]
    why = "ids of 31 bits in every cell; every page of both runs is looked up, then recycled"
    yield why, sequences(NAMES, [[*history, *looks, clear] for history in wide])
    fill = [(APPEND, 0, 0, 10 + page, 0) for page in range(cells)]
    ends = [
        [*fill, (SPLIT, 0, 0, high, cells - high), (LOOKUP, 0, int(high < cells), 0, 0), clear]
        for high in (cells, cells // 2, 1, 0)
    ]
    yield "a full entry retains all pages, or changes as many as possible to low ones", sequences(NAMES, ends)
    turns = [*((APPEND, 0, page % 2, 20 + page, 0) for page in range(cells)), (LOOKUP, 0, 0, cells // 2, 0), clear]
    yield "pages from either side until the runs touch", sequences(NAMES, [turns])
    unused = [*fill[:3], (SPLIT, 0, 0, 1, 0), (APPEND, 0, 1, 30, 0), clear, (APPEND, 0, 1, 31, 0)]
    yield "unused cells keep their ids", sequences(NAMES, [unused]), "D-leankv-40"


def random(config: Config, seed: Seeds) -> Blocks:
    yield "any history", legal(config, uniform("page_table", config, (4, 24), seed))


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` as valid events: what an entry cannot do becomes a record of its tokens."""
    changed = {name: np.array(inputs[name]) for name in NAMES}
    events, cells = changed["op"].shape[-1], config["cells"]
    entries = config["slots"] * config["layers"] * config["heads"]
    flat = [changed[name].reshape(-1, events) for name in NAMES]
    for device in range(len(flat[0])):
        used = [[0, 0] for _ in range(entries)]
        for row in range(events):
            event = [int(column[device, row]) for column in flat]
            for column, value in zip(flat, _admitted(event, used, cells), strict=True):
                column[device, row] = value
    return changed


def _admitted(event: list[int], used: list[list[int]], cells: int) -> list[int]:
    op, entry, section, value, other = event
    high, low = used[entry]
    if op == CLEAR:
        used[entry] = [0, 0]
    elif op == APPEND and high + low < cells:
        used[entry][section] += 1
    elif op == SPLIT and low == 0:
        value %= high + 1
        other %= high - value + 1
        used[entry] = [value, other]
    elif op == LOOKUP and used[entry][section]:
        value %= used[entry][section]
    else:
        op = TOKENS
    return [op, entry, section, value, other]
