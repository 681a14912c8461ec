"""What crosses the ports of OliVe's units while a model runs: pairs at the decoder, one dot product at the MAC.

Per linear input: all its pairs as they arrive at `ovp_decoder`. Per linear weight, once a run: the row that holds the
largest outlier. Per linear layer of 4 bits: the dot product whose exact sum has the largest magnitude, as the events of
`olive_mac`, a load of 0 first.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.formats.ovp import Ovp
from refemu.models.taps import Watch, model_case
from refemu.units import ovp_decoder

if TYPE_CHECKING:
    from refemu.models.schemes.olive_linear import Part, Weight


def emit(part: "Part", pairs: np.ndarray, exact: np.ndarray, watch: Watch) -> None:
    """Call the taps for one pass through a part; pairs: (tokens, inputs / 2) words, exact: (tokens, outputs) sums."""
    config = config_name(part.fmt)
    if config is None:
        return
    _input(part, config, pairs, watch)
    if watch.first_token == 0:
        for weight in part.weights:
            _weight_row(part, weight, watch)
    if part.fmt.width == 4:
        for name, weight in zip(part.names, part.weights, strict=True):
            _dot_product(part, weight, pairs, exact[:, part.columns[name]], watch)


def config_name(fmt: Ovp) -> str | None:
    """The configuration of `ovp_decoder` that decodes a format, None if there is none."""
    for name, config in ovp_decoder.UNIT.configs.items():
        if dict(config) == decoder_parameters(fmt):
            return name
    return None


def decoder_parameters(fmt: Ovp) -> dict[str, Any]:
    """Keywords of the decoder of a format; without outliers any outlier decoder will do, E2M1 stands there."""
    kind = type(fmt.normal).__name__.lower().replace("format", "")
    outlier = (2, 1) if fmt.outlier is None else (fmt.outlier.exp_bits, fmt.outlier.man_bits)
    return {"normal": f"{kind}{fmt.width}", "outlier": outlier}


def bias(fmt: Ovp) -> int:
    """The decoder's bias; 0 without outliers."""
    return 0 if fmt.outlier is None else fmt.outlier.bias


def _input(part: "Part", config: str, pairs: np.ndarray, watch: Watch) -> None:
    tokens, per_token = pairs.shape
    case = model_case(
        f"input of {', '.join(part.names)}", config, f"{part.names[0]}.input", part.layer,
        _decoder_inputs(pairs.reshape(-1), part.fmt),
        first_token=watch.first_token, tokens=tokens, pairs_per_token=per_token, linears=list(part.names))
    watch.emit(part.layer, "ovp_decoder", case)


def _weight_row(part: "Part", weight: "Weight", watch: Watch) -> None:
    row, config = weight.largest_outlier(), config_name(weight.format)
    if row is not None and config is not None:
        case = model_case("weight row that holds the largest outlier", config, f"{weight.name}.weight", part.layer,
                          _decoder_inputs(weight.pairs()[row], weight.format), row=row)
        watch.emit(part.layer, "ovp_decoder", case)


def _decoder_inputs(pairs: np.ndarray, fmt: Ovp) -> dict[str, np.ndarray]:
    return {"pair": pairs, "bias": np.broadcast_to(np.uint8(bias(fmt)), pairs.shape)}


def _dot_product(part: "Part", weight: "Weight", pairs: np.ndarray, exact: np.ndarray, watch: Watch) -> None:
    """The events of the sum of largest magnitude, the first of equals: one load, then every product in order."""
    token, row = (int(at) for at in np.unravel_index(int(np.argmax(np.abs(exact))), exact.shape))
    a_exp, a_int = _operands(pairs[token], part.fmt)
    b_exp, b_int = _operands(weight.pairs()[row], weight.format)
    load = np.zeros((1, len(a_exp)), np.uint8)
    load[0, 0] = 1
    inputs = {"a_exp": a_exp[None], "a_int": a_int[None], "b_exp": b_exp[None], "b_int": b_int[None],
              "load": load, "acc_in": np.zeros(load.shape, np.int32)}
    case = model_case("dot product with the largest sum", part.overflow, f"{weight.name}.output", part.layer, inputs,
                      token=watch.first_token + token, first_token=watch.first_token, tokens=len(pairs), row=row)
    watch.emit(part.layer, "olive_mac", case)


def _operands(pairs: np.ndarray, fmt: Ovp) -> tuple[np.ndarray, np.ndarray]:
    """Exponents and integers of a row of pairs in order, behind one 0 for the load."""
    exponents, integers = (table[pairs].reshape(-1) for table in _decoded(fmt))
    return np.concatenate([exponents[:1] * 0, exponents]), np.concatenate([integers[:1] * 0, integers])


@lru_cache(maxsize=8)
def _decoded(fmt: Ovp) -> tuple[np.ndarray, np.ndarray]:
    """What the decoder makes of every pair word: exponents and integers, each (words, 2)."""
    decoded = ovp_decoder.run(np.arange(1 << 2 * fmt.width), bias(fmt), **decoder_parameters(fmt))
    return decoded.exponent, decoded.base_int
