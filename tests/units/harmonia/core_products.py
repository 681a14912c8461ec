"""Products for harmonia_core: ports, configuration, and the same operands for the oracle, which converts them."""

from functools import cached_property
from typing import Any

import numpy as np

from tests.oracles.harmonia import bfp, core_values
from tests.oracles.harmonia import core as oracle

WIDTHS = {"bfp8": 8, "bfp4": 4, "mixed": 8}  #: mantissa bits of B


def half(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


class Product:
    """A random product: its ports, its configuration, and the same operands for the oracle, which converts them."""

    def __init__(
        self,
        kind: str,
        rows: int,
        inner: int,
        columns: int,
        b_type: str = "int4",
        seed: int = 1,
        given: core_values.Given = core_values.NOTHING,
        **options: Any,
    ) -> None:
        left, right = (half(shape, seed + i) for i, shape in enumerate(((rows, inner), (columns, inner))))
        sizes = {"kind": kind, "rows": rows, "inner": inner, "columns": columns, "b_type": b_type}
        self.config: dict[str, Any] = {**sizes, **options}
        self.a = [bfp.encode(row) for row in left.view(np.uint16).tolist()]
        ports = {"a_sign": signs(self.a), "a_mag": codes(self.a), "a_exp": exponents(self.a)}
        zeros, none = [[0] * inner] * columns, [[0] * -(-inner // 32)] * columns
        if b_type == "int4":
            self.b: Any = [weights(row) for row in right.astype(float).tolist()]
            b = [[code & 15 for group, _ in row for code in group] for row in self.b]
            factors = [[factor for _, factor in row] for row in self.b]
            ports |= {"b": b, "b_sign": zeros, "b_exp": none, "w_scale": factors}
        else:
            self.b = [bfp.encode(row, WIDTHS[b_type]) for row in right.view(np.uint16).tolist()]
            ports |= {"b": codes(self.b), "b_sign": signs(self.b), "b_exp": exponents(self.b), "w_scale": none}
        lengths = {"a_sign": inner, "a_mag": inner, "b": inner, "b_sign": inner}
        arrays = {name: np.array(rows)[:, : lengths.get(name)] for name, rows in ports.items()}
        self.given = given
        arrays |= {name: np.array(part) for name, part in vars(given).items() if len(part)}
        self.ports = {name: array.reshape(-1) for name, array in arrays.items()}
        self.wanted = core_values.Product(**self.config)

    def run(self, run: Any, **options: Any) -> Any:
        return run(**{**self.ports, **self.config, **options})

    @cached_property
    def moments(self) -> list[oracle.Moment]:
        return list(oracle.events(self.wanted, self.a, self.b, self.given))

    def y(self, result: Any) -> np.ndarray:
        return np.asarray(result.y).reshape(self.wanted.rows, self.wanted.columns)


def signs(rows: list[list[bfp.Group]]) -> list[list[int]]:
    return [[sign for group in row for sign in group.sign] for row in rows]


def codes(rows: list[list[bfp.Group]]) -> list[list[int]]:
    return [[code for group in row for code in group.mantissa] for row in rows]


def exponents(rows: list[list[bfp.Group]]) -> list[list[int]]:
    return [[group.exponent for group in row] for row in rows]


def weights(row: list[float]) -> list[tuple[list[int], int]]:
    """Groups of 32 codes, the last filled up with 0, and the factor of the 128 weights that they belong to."""
    found = []
    for scale, code in bfp.encode_int(row):
        padded = code + [0] * (-len(code) % 32)
        found += [(padded[i : i + 32], scale) for i in range(0, len(padded), 32)]
    return found


def offsets(channels: int, seed: int = 5) -> core_values.Given:
    """Offsets of a prompt: one channel in 32."""
    found = np.zeros(channels, np.float16)
    found[7::32] = half((channels,), seed)[7::32]
    return core_values.Given(frozen=found.view(np.uint16).tolist())


def biases(columns: int) -> core_values.Given:
    return core_values.Given(bias=half((columns,), 11).view(np.uint16).tolist())


def widths(*shape: int) -> core_values.Given:
    """Codes that rows see in 8 bits: the more, the later the row."""
    rows, units = shape
    return core_values.Given(
        wide=[[int(unit * rows > row * units // 2) for unit in range(units)] for row in range(rows)]
    )


def at(*positions: int) -> core_values.Given:
    return core_values.Given(position=positions)


KEYS = {"rotation": "interleaved", "head_dim": 16}
PRODUCTS = {
    "linear": Product("linear", 9, 40, 33),
    "linear of one": Product("linear", 1, 1, 1),
    "silu that stays FP16": Product("final", 3, 32, 40, activation="silu"),
    "silu": Product("linear", 4, 32, 40, activation="silu"),
    "relu": Product("linear", 4, 32, 40, activation="relu"),
    "final": Product("final", 9, 64, 20),
    "exact": Product("linear", 3, 64, 16, partial="fp32"),
    "gelu": Product("linear", 4, 32, 40, activation="gelu_tanh"),
    "gelu by erf": Product("linear", 2, 32, 8, activation="gelu_erf"),
    "biased": Product("linear", 9, 40, 33, given=biases(33), bias_add="after", activation="gelu_tanh"),
    "biased before FP2Half": Product("final", 9, 40, 33, given=biases(33), bias_add="accumulator"),
    "biased by tiles": Product(
        "v", 70, 32, 40, tile_m=32, tile_k=32, given=biases(40), bias_add="accumulator", partial="fp32"
    ),
    "biased q": Product("q", 9, 32, 64, given=biases(64), bias_add="after", head_dim=64),
    "biased k": Product("k", 9, 32, 32, given=biases(32), bias_add="after", rotation="none", window=4),
    "context": Product("context", 5, 70, 64, "bfp8"),
    "context at 4 bits": Product("context", 5, 32, 32, "bfp4", m=6),
    "values of both widths": Product("context", 11, 130, 32, "mixed", given=widths(11, 5)),
    "values, rows side by side": Product("context", 11, 130, 32, "mixed", given=widths(11, 5), codes="rows"),
    "values of a short head": Product("final", 3, 70, 20, "mixed", given=widths(3, 3)),
    "keys of both widths": Product("score", 11, 48, 37, "mixed", start=26, given=widths(11, 37)),
    "keys, rows side by side": Product("score", 11, 48, 37, "mixed", start=26, given=widths(11, 37), codes="rows"),
    "one query": Product("score", 1, 16, 40, "mixed", start=39, given=widths(1, 40)),
    "v": Product("v", 37, 32, 20),
    "v of 4 bits": Product("v", 1, 32, 17, m=4),
    "v of one": Product("v", 1, 33, 1),
    "v by tiles": Product("v", 70, 32, 40, tile_m=32, tile_k=32),
    "tiles down": Product("linear", 40, 32, 70, tile_m=32, tile_k=32, force=1),
    "tiles along": Product("linear", 40, 32, 70, tile_m=32, tile_k=32, force=2),
    "score": Product("score", 3, 32, 35, "bfp8", start=30),
    "score of 16": Product("score", 9, 16, 70, "bfp4", start=61),
    "q": Product("q", 5, 32, 128, head_dim=64, start=3),
    "q interleaved": Product("q", 9, 32, 64, start=70, **KEYS),
    "q by tiles": Product("q", 33, 32, 144, head_dim=48, tile_m=32, tile_k=32, force=1),
    "q not turned": Product("q", 3, 32, 20, head_dim=5, rotation="none"),
    "k": Product("k", 5, 32, 64, head_dim=64),
    "k of a window": Product("k", 32, 32, 32),
    "k beyond it": Product("k", 34, 32, 64, **KEYS),
    "k by tiles": Product("k", 41, 32, 80, tile_m=32, tile_k=32, head_dim=40, force=1),
    "k, two channels": Product("k", 10, 32, 96, head_dim=48, rotation="none"),
    "k of a short prompt": Product("k", 12, 32, 32, window=5),
    "k without offsets": Product("k", 34, 32, 32, window=0),
    "later without": Product("k", 2, 32, 32, window=0, start=9),
    "a later key": Product("k", 1, 32, 64, start=100, given=offsets(64), **KEYS),
    "later keys": Product("k", 10, 32, 64, head_dim=64, start=32, given=offsets(64)),
    "behind a short prompt": Product("k", 3, 32, 32, start=5, window=5, given=offsets(32), base=100),
    "k at positions": Product("k", 10, 32, 32, window=9, given=at(0, 1, 3, 4, 8, 9, 30, 31, 40, 99), positions="port"),
    "one key of the window": Product("k", 9, 32, 32, given=at(0, *range(32, 40)), positions="port"),
    "q at positions": Product("q", 3, 32, 32, given=at(7, 9, 4000000), positions="port", **KEYS),
    "score at positions": Product("score", 3, 32, 20, "bfp8", given=at(4, 5, 19), positions="port"),
}
