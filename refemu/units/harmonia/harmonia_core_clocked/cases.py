"""Golden cases of harmonia_core_clocked: products of harmonia_core clock by clock, back to back, apart and cut off.
[harmonia §IV-A, Fig. 12]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.harmonia.harmonia_core import cases as harmonia_core_cases
from refemu.units.stimuli import Blocks, Edges, Inputs, Seeds, edges, filled, in_turn, joined, words

NAME = "harmonia_core_clocked"
IDLE = 24  #: idle rows after the paper's product
FEW = 2  #: products of each block of cases of the whole operation
WHY_BITS = "large elements; then elements of 0, and every bit of the other operands set and cleared by turns"
WHY_TIES = "partial sums of 2049, halfway between two words, next to keys of a near score: they round to even"
MORE = 16  #: rows of a random case beyond those of three products of the longest kind


def paper(config: Config, seed: Seeds) -> Blocks:
    ((_, product, *_),) = harmonia_core_cases.paper(config, seed)
    (length,) = clocks(config, product)
    why = "[harmonia §IV-A] one product through all steps, clock by clock; then idle rows"
    yield why, _rows(product, [[*in_turn([0], length), *[(0, 0)] * IDLE]]), "D-harmonia-54"


def edge(config: Config, seed: Seeds) -> Blocks:
    whole = list(harmonia_core_cases.edge(config, seed))
    yield from _edge(config, joined((products for _, products, *rest in whole if rest != ["D-harmonia-24"]), FEW))
    for why, products, *decision in whole:
        if decision == ["D-harmonia-24"]:
            again = {name: np.concatenate([array, array[:1]]) for name, array in products.items()}
            yield f"{why}; back to back", _back_to_back(config, again), *decision
    yield WHY_BITS, _back_to_back(config, _bits(config))
    if config["kind"] == "score":
        yield WHY_TIES, _back_to_back(config, _ties(config)), "D-arith-2"


def random(config: Config, seed: Seeds) -> Blocks:
    ((why, products, *_),) = harmonia_core_cases.random(config, seed)
    inputs = _random(products, seed, 3 * max(clocks(config, products)) + MORE)
    yield f"{why}; operands of several products by turns, and `go` in every other row", inputs


def clocks(config: Config, products: Inputs) -> list[int]:
    """Rows that each product takes."""
    device: Any = find(NAME).unit_class(**config)
    names = [port.name for port in device.core.ports.inputs]
    listed = zip(*(products[name].tolist() for name in names), strict=True)
    operands = [[tuple(value) if isinstance(value, list) else value for value in product] for product in listed]
    return [int(device.planned(each).length) for each in operands]


def _edge(config: Config, products: Inputs) -> Blocks:
    lengths = clocks(config, products)
    count, length = len(lengths), lengths[0]
    why = "products back to back, others on the ports while one is under way"
    yield why, _back_to_back(config, products), "D-harmonia-55"
    why = "a product after two idle rows, another after one more, others on the ports"
    apart = [row for number in (0, 1) for row in [*_taken(number, lengths[number], count), (0, 1)]]
    before = 2 % count if "position" in products else 0  # other positions in the row before a product begins
    yield why, _rows(products, [[(0, 1), (0, before), *apart]]), "D-arith-21"
    why = "go high in every row, with changing operands: they count when the previous product is closed"
    yield why, _rows(products, [[(1, row % count) for row in range(length + 3)]]), "D-arith-19"
    why = "a product cut off by a reset in each third of its clocks; then idle"
    cut = [_taken(2 % count, length * part // 4, count) for part in (1, 2, 3)]
    longest = max(map(len, cut))
    padded = [[(0, 1)] * (longest - len(case)) + case for case in cut]
    yield why, _rows(products, [*padded, [(0, 3 % count)] * longest])


def _back_to_back(config: Config, products: Inputs) -> Inputs:
    """Each product begins as soon as the previous one is closed."""
    lengths = clocks(config, products)
    turns = [row for number, length in enumerate(lengths) for row in _taken(number, length, len(lengths))]
    return _rows(products, [turns])


def _bits(config: Config) -> Inputs:
    """Large equal elements, then elements of 0 whose other operands have every bit set and cleared by turns."""
    codes = config["b_type"] == "int4"
    frozen = max(*(port.count for port in find(NAME).ports(config).inputs if port.name == "frozen"), 0, 0)
    count = 2 * (frozen or 2) + 2
    row = np.arange(count)[:, None]
    exponents, scales, words = (
        np.where(row % 2, odd, even) for odd, even in ((0x0A, 0x15), (0x2AAA, 0xD555), (0x6AAA, 0x9555))
    )
    signs = {"a_sign": row % 2, "b_sign": 0 if codes else row % 2, "wide": row % 2, "bias": words}
    sizes = {"a_exp": exponents, "b_exp": 0 if codes else exponents, "w_scale": scales if codes else 0}
    b = np.where(row % 2, 0xAA, 0x55) & (0x0F if codes else 0xFF)
    offsets = (np.arange(frozen) == (row - 1) // 2 % max(frozen, 1)) * words
    places = np.where(row % 2, [0, 0x155555, 0x2AAAAB], [0, 0x2AAAAA, 0x355554])
    places[[0, -1]] = [0, 1, 2]
    inputs = filled(NAME, config, count, **signs, **sizes, b=b, frozen=offsets, position=places)
    large = {"a_mag": 255, "a_exp": 17, "a_sign": 0, "b": 7, "bias": 0, "frozen": 0}
    large |= {"w_scale": 0x3000} if codes else {"b_sign": 0, "b_exp": 15, "w_scale": 0}
    for name in large.keys() & inputs.keys():
        inputs[name][[0, -1]] = large[name]
    return {name: array for name, array in inputs.items() if name != "go"}


def _ties(config: Config) -> Inputs:
    """Scores of 2049 / 128 next to scores of 2043 / 128, in each of the columns; products of 8-bit codes."""
    ports = {port.name: port.count for port in find(NAME).ports(config).inputs}
    columns = ports["b_exp"]
    a_mag = np.tile([255, 9], ports["a_mag"] // 2)  # 255 * 8 + 9 * 1 is 2049, 9 * 227 is 2043
    b = np.where(np.eye(columns, dtype=np.bool_)[..., None], [8, 1], [0, 227]).reshape(columns, -1)
    inputs = filled(NAME, config, columns, a_mag=a_mag, a_exp=18, b_exp=19, wide=1, b=b)
    return {name: array for name, array in inputs.items() if name != "go"}


def _taken(number: int, length: int, count: int) -> list[tuple[int, int]]:
    """A product, with others on the ports while it is under way."""
    return [(1, number), *((0, (number + row) % count) for row in range(1, length))]


def _random(products: Inputs, seed: Seeds, rows: int) -> dict[str, np.ndarray]:
    """A case for every seed. products: those of every seed in turn, equally many."""
    drawn = words(f"{NAME}/go", seed, rows)
    each = len(products["a_exp"]) // len(drawn)
    taken = (drawn >> np.uint64(32)) % np.uint64(each) + each * np.arange(len(drawn), dtype=np.uint64)[:, None]
    return _rows(products, np.stack([drawn & np.uint64(1), taken], axis=-1).astype(np.int64).tolist())


def _rows(products: Inputs, rows: Sequence[Edges]) -> dict[str, np.ndarray]:
    """`edges` of this unit, whose parameter `start` is a position."""
    return {"go" if port == "start" else port: array for port, array in edges(products, rows).items()}


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` in the form of harmonia_core."""
    operands = {port: array for port, array in inputs.items() if port != "go"}
    return {"go": inputs["go"], **harmonia_core_cases.legal(config, operands)}
