"""Golden cases of sub_pe: nibbles of a worked dot product of [harmonia §IV-B], ends of the sum, all products."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, uniform

LANES = 32


def paper(config: Config) -> Blocks:
    a = row(201, -50, 6)
    why = "[harmonia §IV-B] 201 -50 6 by the high and the low nibbles of -224 144 56: -3246 and 48"
    yield _cases(why, [(a, row(-14, 9, 3)), (a, (row(1)[0], row(0, 0, 8)[1]))])


def edge(config: Config) -> Blocks:
    top, least = row(*[255] * LANES), row(*[-255] * LANES)
    why = "the largest sum of either sign: 32 * 255 * 15 = 122,400"
    yield _cases(why, [(left, row(*[sign * 15] * LANES)) for left in (top, least) for sign in (1, -1)])
    yield _cases("the INT4 code -8 in every lane: 32 * 255 * -8 = -65,280", [(top, row(*[-8] * LANES))])
    minus_zero = np.ones(LANES, np.int64), np.zeros(LANES, np.int64)
    yield _cases("negative zeros contribute nothing", [(minus_zero, row(*[15] * LANES)), (top, minus_zero)])
    yield "one lane alone, each in turn", _lanes()


def random(config: Config, seed: Seeds) -> Blocks:
    yield "uniform magnitudes and signs", uniform("sub_pe", config, (128,), seed)


def exhaustive(config: Config) -> Blocks:
    yield _sweep()


Row = tuple[np.ndarray, np.ndarray]  #: signs, magnitudes


def row(*values: int) -> Row:
    """Signs and magnitudes of the first lanes; the others are +0."""
    lanes = np.zeros(LANES, np.int64)
    lanes[: len(values)] = values
    return (lanes < 0).astype(np.int64), np.abs(lanes)


def _lanes() -> dict[str, np.ndarray]:
    single = np.eye(LANES, dtype=np.int64)
    a_mag = single * (np.arange(LANES)[:, None] + 200)
    return {"a_sign": single * 0, "a_mag": a_mag, "b_sign": single, "b_mag": single * 0 + 13}


def _sweep() -> Block:
    """Every pair of magnitudes once; a row has one magnitude of a with 16 of b twice, signs that do not cancel."""
    mag = np.arange(1, 257) & 255
    lane = np.arange(LANES)
    a_mag, b_mag = np.broadcast_arrays(mag[:, None], lane & 15)
    return (
        "every product of 8 by 4 bits, in lanes of alternating weight of sign",
        {
            "a_sign": np.broadcast_to((lane >> 4) & (lane & 1), a_mag.shape),
            "a_mag": a_mag,
            "b_sign": np.broadcast_to((lane >> 4) & (lane >> 1) & 1, a_mag.shape),
            "b_mag": b_mag,
        },
    )


def _cases(why: str, rows: list[tuple[Row, Row]]) -> Block:
    names = ("a_sign", "a_mag", "b_sign", "b_mag")
    columns = zip(*((*a, *b) for a, b in rows), strict=True)
    return why, {name: np.array(column) for name, column in zip(names, columns, strict=True)}
