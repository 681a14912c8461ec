"""Golden cases of bfp_pe_array: tiles of every mode and shape [harmonia §IV-C, Fig. 14a].

This module describes stimuli only; the descriptor, and with it every answer, is in bfp_pe_array.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import find
from refemu.units.harmonia.cases import bfp_accumulator as bfp_accumulator_cases
from refemu.units.harmonia.cases import bfp_pe as bfp_pe_cases
from refemu.units.stimuli import Seeds, random_inputs
from refemu.units.unit import Cases, Config, Kind

W4, M4, M8 = range(3)  # modes
ROWS, COLUMNS, LANES = 8, 16, 32


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    groups = config["groups"]
    ports = find("bfp_pe_array").ports(config).inputs
    drawn = legal(config, _near(random_inputs("bfp_pe_array", ports, (9,), seed)))
    if kind == "paper":
        inputs = {port: array[:3] for port, array in drawn.items()}
        why = "[harmonia §IV-C] one full tile in each mode: columns valid one after the other"
        yield Cases(kind, why, legal(config, inputs | _shape(3, groups, range(3))))
    if kind == "edge":
        inputs = {port: array[3:6] for port, array in drawn.items()}
        why = "a tile of 1 row, of 1 column, of 5 rows by 11 columns"
        yield Cases(kind, why, legal(config, inputs | _shape(3, groups, (W4, M8, M4), ((1, 16), (8, 1), (5, 11)))))
        mixed = np.where(np.arange(groups) % 2 == np.arange(2)[:, None], M8, M4)
        inputs = {port: array[6:8] for port, array in drawn.items()} | _shape(2, groups, (M4, M8))
        why = "modes mixed in a reduction, as for values of both precisions"
        yield Cases(kind, why, legal(config, inputs | {"mode": mixed if groups > 1 else mixed[:, 0]}), "D-harmonia-36")
        top = {port: array[:2] * 0 + 255 for port, array in drawn.items() if port in ("a_mag", "b")}
        ends = {
            port: drawn[port][:2] * 0 + value
            for port, value in (("a_sign", 0), ("a_exp", 30), ("b_sign", 0), ("b_exp", 30), ("w_scale", 0x3C00))
        }
        why = "the largest sums at the largest exponents: beyond FP16"
        yield Cases(kind, why, legal(config, drawn | top | ends | _shape(2, groups, (W4, M8))), "D-harmonia-7")
    if kind == "random":
        yield Cases(kind, "exponents and factors as real tensors have them", drawn)


def _shape(tiles: int, groups: int, modes: Any, sizes: Any = None) -> dict[str, np.ndarray]:
    """Modes and masks of `tiles` tiles, full ones without `sizes`."""
    height, width = np.array(sizes if sizes else [(ROWS, COLUMNS)] * tiles).T[..., None]
    mode = np.array(modes)[:, None] + np.zeros((tiles, groups), np.int64)
    return {
        "mode": mode if groups > 1 else mode[:, 0],
        "row_valid": (np.arange(ROWS) < height).astype(np.int64),
        "col_valid": (np.arange(COLUMNS) < width).astype(np.int64),
    }


def _near(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws with modes, exponents and factors that are common."""
    return {
        **drawn,
        "mode": drawn["mode"] % 3,
        "a_exp": 12 + (drawn["a_exp"] & 7),
        "b_exp": 10 + (drawn["b_exp"] & 7),
        "w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF),
    }


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    tiles, groups = np.shape(inputs["row_valid"])[:-1], config["groups"]
    mode = np.broadcast_to(np.reshape(inputs["mode"], (*tiles, 1, groups)), (*tiles, COLUMNS, groups))
    split = {
        port: np.reshape(inputs[port], mode.shape + ((LANES,) if port in ("b", "b_sign") else ()))
        for port in ("b", "b_sign", "b_exp", "w_scale")
    }
    fitted = bfp_pe_cases.legal(config, {"mode": mode, **split})
    return {**inputs, **{port: fitted[port].reshape(np.shape(inputs[port])) for port in split}}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Tiles of each flag, in some valid element."""
    flags = bfp_accumulator_cases.mark(config, inputs, result)
    return {name: np.asarray((flag & result.valid).any(axis=-1)) for name, flag in flags.items()}
