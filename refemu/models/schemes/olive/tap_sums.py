"""Dot products and tiles of a run, as inputs of the summing units.

Each linear layer has two sources, over all of K, so that a result is a sum of the layer.

The sum of largest magnitude: its products one by one at `olive_mac` or `olive_pe8`, after a load of 0, and its
operations at `olive_edp`, with c running over K.

The input of largest magnitude: the aligned tile around it at `mmaovp`, an instruction for every chunk of K with c
running over them, padded with zero pairs; and a tile with it at `olive_systolic`, in a configuration with the layer's K
and, where the matrices allow, the size of the ready configurations. The same at `olive_systolic_clocked`: a tile of the
size of the ready grid, every edge of it, with the drain.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import integers
from refemu.formats.olive.ovp import Ovp
from refemu.models.schemes.olive.linear import TERMS, Part, Weight, pair_values
from refemu.models.taps import Later, Watch, config_of, model_case, sized
from refemu.units.olive import ovp_decoder
from refemu.units.olive.olive_edp import OPERANDS
from refemu.units.olive.olive_mac import ACC_BITS

TILE = 8  #: rows and columns of the tile of `mmaovp`


@dataclass(frozen=True, eq=False)
class Pass:
    """One pass of an input through a part."""

    part: Part
    x: np.ndarray  #: float32 (tokens, inputs)
    pairs: np.ndarray  #: words, (tokens, inputs / 2)
    exact: np.ndarray  #: sums, (tokens, outputs)
    watch: Watch

    @property
    def scale(self) -> np.float32:
        """Name of the input."""
        assert self.part.input is not None
        return self.part.input.scale

    @cached_property
    def peak(self) -> tuple[int, int]:
        """Token and pair of the input of largest magnitude, the first of equal ones."""
        token, pair = divmod(int(np.argmax(pair_peaks(self.part.fmt).take(self.pairs))), self.pairs.shape[1])
        return token, pair

    @property
    def peak_value(self) -> float:
        """Decoded magnitude of that input."""
        return float(np.float64(pair_peaks(self.part.fmt)[self.pairs[self.peak]]) * np.float64(self.scale))

    def source(self, **more: Any) -> dict[str, Any]:
        """Description common to all cases of the pass."""
        return {"first_token": self.watch.first_token, "tokens": len(self.pairs), **more}


def emit(layer_pass: Pass) -> None:
    """Call the taps of the units that sum, for every linear layer of a part."""
    for name, weight in zip(layer_pass.part.names, layer_pass.part.weights, strict=True):
        sums = np.abs(layer_pass.exact[:, layer_pass.part.columns[name]])
        _largest_sum(layer_pass, weight, sums)
        _tile(layer_pass, weight, sums)
        _array(layer_pass, weight, sums)
        _clocked(layer_pass, weight, sums)


def _largest_sum(layer_pass: Pass, weight: Weight, sums: np.ndarray) -> None:
    """The dot product of largest magnitude, the first of equal ones."""
    token, row = divmod(int(np.argmax(sums)), sums.shape[1])
    a, b, part = layer_pass.pairs[token], weight.pairs()[row], layer_pass.part
    source = layer_pass.source(token=layer_pass.watch.first_token + token, row=row, largest=int(sums[token, row]))
    if part.fmt.width == 4:
        unit, names, config = "olive_mac", "ab", config_of("olive_mac", {"overflow": part.overflow})
    else:
        unit, names = "olive_pe8", "xy"
        config = config_of(unit, {"split": "twos_complement", "overflow": part.overflow})
    why, tensor = "dot product with the largest sum", f"{weight.name}.output"
    if config is not None and _decodable(part.fmt, weight.format):
        inputs = Later(lambda: _events(names, (a, part.fmt), (b, weight.format)))
        layer_pass.watch.emit(part.layer, unit, model_case(why, config, tensor, part.layer, inputs, **source))
    kinds = {"a": operand(part.fmt), "b": operand(weight.format)}
    config = sized("olive_edp", {}, **kinds, overflow=part.overflow)
    if config is not None and standard(part.fmt, weight.format):
        inputs = Later(lambda: _operations(a, b, part, weight))
        layer_pass.watch.emit(part.layer, "olive_edp", model_case(why, config, tensor, part.layer, inputs, **source))


def _events(names: str, *operands: tuple[np.ndarray, Ovp]) -> dict[str, np.ndarray]:
    """A load of 0, then every product in order, of two rows of pairs and their formats; each (1, events)."""
    inputs = {}
    for name, (pairs, fmt) in zip(names, operands, strict=True):
        for port, table in zip(("exp", "int"), decoded(fmt), strict=True):
            values = table[pairs].reshape(-1)
            inputs[f"{name}_{port}"] = np.concatenate([values[:1] * 0, values])[None]
    load = np.zeros_like(inputs[f"{names[0]}_exp"], np.uint8)
    load[0, 0] = 1
    return {**inputs, "load": load, "acc_in": np.zeros(load.shape, np.int32)}


def _operations(a: np.ndarray, b: np.ndarray, part: Part, weight: Weight) -> dict[str, np.ndarray]:
    """The operations of a dot-product unit for one sum."""
    lanes = TERMS[part.fmt.width] // 2
    left, right = (padded(row[None], 1, lanes) for row in (a, b))
    c = running(left, right, part, weight)[:-1, 0, 0]
    return {
        "a_pairs": left.reshape(-1, lanes),
        "b_pairs": right.reshape(-1, lanes),
        "c": c,
        **_biases(len(c), part.fmt, weight.format),
    }


def _tile(layer_pass: Pass, weight: Weight, sums: np.ndarray) -> None:
    """Eight tokens by eight outputs: tokens around the largest input, outputs around their largest sum."""
    if not layer_pass.watch.wants("mmaovp"):
        return
    from refemu.units.olive import mmaovp

    part = layer_pass.part
    types = {kind: name for name, kind in mmaovp.TYPES.items()}
    kinds = {f"{side}_type": types[operand(fmt)] for side, fmt in (("a", part.fmt), ("b", weight.format))}
    config = sized("mmaovp", {}, **kinds, overflow=part.overflow)
    if config is None or not standard(part.fmt, weight.format):
        return
    token = layer_pass.peak[0] // TILE * TILE
    row = int(np.argmax(sums[token : token + TILE].max(axis=0))) // TILE * TILE
    source = layer_pass.source(token=layer_pass.watch.first_token + token, row=row, largest=layer_pass.peak_value)
    a, b = layer_pass.pairs[token : token + TILE], weight.pairs()[row : row + TILE]
    inputs = Later(lambda: _instructions(a, b, part, weight))
    why, tensor = "tile around the largest input", f"{weight.name}.output"
    layer_pass.watch.emit(part.layer, "mmaovp", model_case(why, config, tensor, part.layer, inputs, **source))


def _instructions(a: np.ndarray, b: np.ndarray, part: Part, weight: Weight) -> dict[str, np.ndarray]:
    """`mmaovp` on every chunk of K in order; C is the result of the chunks before."""
    from refemu.units.olive import mmaovp

    pairs = TERMS[part.fmt.width]  # pairs of a row in an instruction: two operations
    left, right = (padded(rows, TILE, pairs) for rows in (a, b))
    c = running(left, right, part, weight)[: -1 : mmaovp.CHUNKS]
    a_pairs, b_pairs = (rows.reshape(TILE, -1, pairs).transpose(1, 0, 2).reshape(len(c), -1) for rows in (left, right))
    return {
        "a_pairs": a_pairs,
        "b_pairs": b_pairs,
        "c": c.reshape(len(c), -1),
        **_biases(len(c), part.fmt, weight.format),
    }


def _array(layer_pass: Pass, weight: Weight, sums: np.ndarray) -> None:
    """An operation of the systolic array: a tile of the sums, some tokens by some outputs."""
    part = layer_pass.part
    if not standard(part.fmt, weight.format) or not layer_pass.watch.wants("olive_systolic"):
        return
    kinds = {"a": operand(part.fmt), "b": operand(weight.format)}
    most = next(iter(units.find("olive_systolic").configs.values()))
    m, n = min(most["m"], len(sums)), min(most["n"], sums.shape[1])
    k = 2 * layer_pass.pairs.shape[1]
    config = sized("olive_systolic", {}, **kinds, overflow=part.overflow, m=m, n=n, k=k)
    if config is None:
        return
    a, b, source = _around_peak(layer_pass, weight, sums, m, n)
    inputs = {f"{side}_pairs": pairs.reshape(1, -1) for side, pairs in (("a", a), ("b", b))}
    inputs |= _biases(1, part.fmt, weight.format)
    why, tensor = "tile of the largest input and of its largest sum", f"{weight.name}.output"
    layer_pass.watch.emit(part.layer, "olive_systolic", model_case(why, config, tensor, part.layer, inputs, **source))


def _around_peak(
    layer_pass: Pass, weight: Weight, sums: np.ndarray, m: int, n: int
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Pairs of m tokens with the largest input and of n outputs with its largest sum, and their source."""
    token = min(layer_pass.peak[0], len(sums) - m)
    row = min(int(np.argmax(sums[layer_pass.peak[0]])), sums.shape[1] - n)
    source = layer_pass.source(token=layer_pass.watch.first_token + token, row=row, largest=layer_pass.peak_value)
    return layer_pass.pairs[token : token + m], weight.pairs()[row : row + n], source


def _clocked(layer_pass: Pass, weight: Weight, sums: np.ndarray) -> None:
    """Every edge of an operation of the sequential array: a tile of the size of its grid, all of K."""
    name, part, wide = "olive_systolic_clocked", layer_pass.part, int(weight.format.width == 8)
    if not standard(part.fmt, weight.format) or not layer_pass.watch.wants(name):
        return
    kinds = {"eight": operand(part.fmt)} if wide else {"a": operand(part.fmt), "b": operand(weight.format)}
    ready = next(iter(units.find(name).configs.values()))
    rows, cols = ready["rows"], ready["cols"]
    config = sized(name, {}, **kinds, overflow=part.overflow)
    if config is None:
        return
    m, n = min(rows >> wide, len(sums)), min(cols >> wide, sums.shape[1])
    a, b, source = _around_peak(layer_pass, weight, sums, m, n)

    def edges() -> dict[str, np.ndarray]:
        from refemu.units.olive import olive_systolic_clocked

        inputs = olive_systolic_clocked.tile(a, b, (bias(part.fmt), bias(weight.format)), rows, cols, wide)
        return {port: values[None] for port, values in inputs.items()}

    why = "every edge of the tile of the largest input and of its largest sum, over all of K, and the drain"
    case = model_case(why, config, f"{weight.name}.output", part.layer, Later(edges), **source, outputs=n, rows=m)
    layer_pass.watch.emit(part.layer, name, case)


def running(a: np.ndarray, b: np.ndarray, part: Part, weight: Weight) -> np.ndarray:
    """The accumulators before the first and after every operation of the dot-product unit, in 32 bits.

    a: pair words (M, pairs), b: (N, pairs), a whole number of operations. Returns int64 (operations + 1, M, N).
    """
    terms = TERMS[part.fmt.width]
    left, right = (
        pair_values(fmt).take(words, axis=0).reshape(len(words), -1).astype(np.int64)
        for words, fmt in ((a, part.fmt), (b, weight.format))
    )
    sums = [np.zeros((len(left), len(right)), np.int64)]
    for at in range(0, left.shape[1], terms):
        total = sums[-1] + integers.matmul(left[:, at : at + terms], right[:, at : at + terms].T)
        sums.append(integers.limit(total, ACC_BITS, True, part.overflow, "olive taps"))
    return np.stack(sums)


def padded(words: np.ndarray, rows: int, multiple: int) -> np.ndarray:
    """Pair words, padded with zero pairs to `rows` rows and a multiple of `multiple` columns."""
    wide = np.zeros((rows, -(-words.shape[1] // multiple) * multiple), words.dtype)
    wide[: len(words), : words.shape[1]] = words
    return wide


def _biases(count: int, a: Ovp, b: Ovp) -> dict[str, np.ndarray]:
    return {f"bias_{side}": np.full(count, bias(fmt), np.uint8) for side, fmt in (("a", a), ("b", b))}


def decoder(fmt: Ovp) -> dict[str, Any]:
    """Arguments for the decoder of a format; without outliers the paper's outlier decoder, which is not used."""
    kind = type(fmt.normal).__name__.lower().replace("format", "")
    paper = (2, 1) if fmt.width == 4 else (4, 3)
    outlier = paper if fmt.outlier is None else (fmt.outlier.exp_bits, fmt.outlier.man_bits)
    return {"normal": f"{kind}{fmt.width}", "outlier": outlier}


def bias(fmt: Ovp) -> int:
    """Bias of the decoder; 0 without outliers."""
    return 0 if fmt.outlier is None else fmt.outlier.bias


def _decodable(*operands: Ovp) -> bool:
    return all(config_of("ovp_decoder", decoder(fmt)) is not None for fmt in operands)


def operand(fmt: Ovp) -> Any:
    """Operand type of the units that read pairs, one of `OPERANDS`; None if no unit reads the format."""
    known = decoder(fmt)["normal"], decoder(fmt)["outlier"]
    return next((kind for kind, formats in OPERANDS.items() if formats == known), None)


def standard(*operands: Ovp) -> bool:
    """Whether the units that read pairs can decode the formats."""
    return _decodable(*operands) and all(operand(fmt) for fmt in operands)


@lru_cache(maxsize=8)
def pair_peaks(fmt: Ovp) -> np.ndarray:
    """float32 (2**pair bits,): the larger magnitude of every pair word in grid units."""
    peaks: np.ndarray = np.abs(pair_values(fmt)).max(axis=1)
    return peaks


@lru_cache(maxsize=8)
def decoded(fmt: Ovp) -> tuple[np.ndarray, np.ndarray]:
    """Decoded exponents and integers of every pair word, each (words, 2)."""
    fields = ovp_decoder.run(np.arange(1 << 2 * fmt.width), bias(fmt), **decoder(fmt))
    return fields.exponent, fields.base_int
