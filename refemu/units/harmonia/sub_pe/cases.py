"""Golden cases of sub_pe: nibbles of a worked dot product of [harmonia §IV-B], ends of the sum, all products."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Seeds, uniform

LANES = 32
NAMES = ("a_sign", "a_mag", "b_sign", "b_mag")


Row = tuple[np.ndarray, np.ndarray]  #: signs, magnitudes


def paper(config: Config) -> Blocks:
    a = row(201, -50, 6)
    why = "[harmonia §IV-B] 201 -50 6 by the high and the low nibbles of -224 144 56: -3246 and 48"
    yield why, _inputs((a, row(-14, 9, 3)), (a, (row(1)[0], row(0, 0, 8)[1])))


def edge(config: Config) -> Blocks:
    top, least = row(*[255] * LANES), row(*[-255] * LANES)
    why = "the largest sum of either sign: 32 * 255 * 15 = 122,400"
    yield why, _inputs(*((left, row(*[sign * 15] * LANES)) for left in (top, least) for sign in (1, -1)))
    yield "the INT4 code -8 in every lane: 32 * 255 * -8 = -65,280", _inputs((top, row(*[-8] * LANES)))
    minus_zero = np.ones(LANES, np.int64), np.zeros(LANES, np.int64)
    yield "negative zeros contribute nothing", _inputs((minus_zero, row(*[15] * LANES)), (top, minus_zero))
    single = np.eye(LANES, dtype=np.int64)
    alone = {"a_sign": single * 0, "a_mag": single * (np.arange(LANES)[:, None] + 200), "b_sign": single}
    yield "one lane alone, each in turn", alone | {"b_mag": single * 0 + 13}


def random(config: Config, seed: Seeds) -> Blocks:
    yield "uniform magnitudes and signs", uniform("sub_pe", config, (128,), seed)


def exhaustive(config: Config) -> Blocks:
    """Every pair of magnitudes once; a row has one magnitude of a with 16 of b twice, signs that do not cancel."""
    lane, a_mag = np.arange(LANES), (np.arange(1, 257) & 255)[:, None]
    values = ((lane >> 4) & (lane & 1), a_mag, (lane >> 4) & (lane >> 1) & 1, lane & 15)
    every = dict(zip(NAMES, np.broadcast_arrays(*values), strict=True))
    yield "every product of 8 by 4 bits, in lanes of alternating weight of sign", every


def row(*values: int) -> Row:
    """Signs and magnitudes of the first lanes; the others are +0."""
    lanes = np.zeros(LANES, np.int64)
    lanes[: len(values)] = values
    return (lanes < 0).astype(np.int64), np.abs(lanes)


def _inputs(*rows: tuple[Row, Row]) -> dict[str, np.ndarray]:
    """Rows of signs and magnitudes of both operands."""
    table: np.ndarray = np.array(rows).reshape(len(rows), 4, LANES)
    return {name: table[:, place] for place, name in enumerate(NAMES)}
