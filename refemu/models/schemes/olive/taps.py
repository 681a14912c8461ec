"""Taps of OliVe's units: values at their ports while a model runs.

For each linear input: all its pairs, as values at `ovp_encoder` and as words at `ovp_decoder`, and those of their codes
that `outlier_decoder` and `flint_decoder` decode. For each linear weight, once a run: the row with the largest outlier,
in the same way after the encoder. `olive_tap_sums` has the dot products and tiles.
"""

from typing import Any

import numpy as np

from refemu import formats, units
from refemu.formats.olive.ovp import Ovp, quotient
from refemu.models.schemes.olive import tap_sums
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.linear import Part, Weight
from refemu.models.schemes.olive.tap_sums import Pass, bias, decoder, pair_peaks
from refemu.models.schemes.scheme import Half
from refemu.models.taps import Later, Watch, config_of, model_case

MAGNITUDES = 0x7FFFFFFF  #: bits of a float32 pattern without its sign
LARGEST = 0x7F7FFFFF  #: pattern of the largest finite float32
DECODERS = ("ovp_decoder", "outlier_decoder", "flint_decoder")
SUMS = {
    4: ("olive_mac", "olive_edp", "mmaovp", "olive_systolic", "olive_systolic_clocked"),
    8: ("olive_pe8", "olive_edp", "mmaovp", "olive_systolic", "olive_systolic_clocked"),
}  #: units by width of the codes


def tapped(config: OliveConfig, half: Half | None = None) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order. half: linear, the only one."""
    if config.act_bits is None:
        return ()
    widths = {config.weight_bits} | ({8} if config.eight_bit or config.n_eight_bit else set())
    decoders = DECODERS if 4 in widths else DECODERS[:-1]  # flint has 4 bits
    return tuple(sorted({"ovp_encoder", *decoders, *(unit for width in widths for unit in SUMS[width])}))


def emit(part: Part, x: np.ndarray, pairs: np.ndarray, exact: np.ndarray, watch: Watch) -> None:
    """Call the taps for one pass through a part.

    x: float32 (tokens, inputs). pairs: their words, (tokens, inputs / 2). exact: the sums, (tokens, outputs).
    """
    layer_pass = Pass(part, x, pairs, exact, watch)
    if any(watch.wants(unit) for unit in ("ovp_encoder", *DECODERS)):
        _input(layer_pass)
        if watch.first_token == 0:
            for weight in part.weights:
                _weight_row(part, weight, watch)
    if any(watch.wants(unit) for unit in SUMS[part.fmt.width]):
        tap_sums.emit(layer_pass)


def _input(layer_pass: Pass) -> None:
    part, tokens, size = layer_pass.part, *layer_pass.pairs.shape
    tensor = f"{part.names[0]}.input"
    source = {"first_token": layer_pass.watch.first_token, "tokens": tokens, "linears": list(part.names)}
    rows = {**source, "pairs_per_token": size, "peak_row": layer_pass.peak[0] * size + layer_pass.peak[1]}
    why = f"input of {', '.join(part.names)}"
    encoder = encoder_config(part.fmt) if layer_pass.watch.wants("ovp_encoder") else None
    if encoder is not None:
        values = Later(lambda: {"value": _values(layer_pass)})
        case = model_case(why, encoder, tensor, part.layer, values, scale=layer_pass.scale, **rows)
        layer_pass.watch.emit(part.layer, "ovp_encoder", case)
    _decoders(layer_pass.watch, why, tensor, part.layer, layer_pass.pairs, part.fmt, rows, source)


def encoder_config(fmt: Ovp) -> str | None:
    """The configuration of `ovp_encoder` with a format, or None."""
    ready = units.find("ovp_encoder").configs.items()
    return next((name for name, config in ready if formats.find(config["fmt"]) == fmt), None)


def _values(layer_pass: Pass) -> np.ndarray:
    """Inputs of `ovp_encoder` for the whole input."""
    return patterns(quotient(layer_pass.x, np.asarray(layer_pass.scale), -1), 2 * layer_pass.pairs.shape[1])


def patterns(values: np.ndarray, width: int) -> np.ndarray:
    """float32 (tokens, inputs) as patterns of pairs, (rows, 2); infinity as the largest finite one, with the same code.

    width: of a token with the padding of its last pair.
    """
    wide = np.zeros((len(values), width), np.float32)
    wide[:, : values.shape[1]] = values
    words = wide.view(np.uint32).reshape(-1, 2)
    return words & ~np.uint32(MAGNITUDES) | np.minimum(words & MAGNITUDES, np.uint32(LARGEST))


def _weight_row(part: Part, weight: Weight, watch: Watch) -> None:
    peaks = pair_peaks(weight.format)
    outliers = np.where(peaks > weight.format.normal.largest, peaks, 0).take(weight.pairs()).max(axis=1)
    values = outliers * weight.scale.astype(np.float64)
    row = int(np.argmax(values))
    if outliers[row]:
        source = {"row": row, "largest": float(values[row])}
        why = "weight row that holds the largest outlier"
        _decoders(watch, why, f"{weight.name}.weight", part.layer, weight.pairs()[row], weight.format, source, source)


def _decoders(
    watch: Watch,
    why: str,
    tensor: str,
    layer: int,
    pairs: np.ndarray,
    fmt: Ovp,
    rows: dict[str, Any],
    source: dict[str, Any],
) -> None:
    """A stream of pair words at the pair decoder, and its codes at the two decoders inside.

    rows: `source` of the case of pairs. source: of the cases of codes.
    """
    config = config_of("ovp_decoder", decoder(fmt))
    if config is None:
        return
    words = pairs.reshape(-1)
    inputs = {"pair": words, "bias": np.broadcast_to(np.uint8(bias(fmt)), words.shape)}
    watch.emit(layer, "ovp_decoder", model_case(why, config, tensor, layer, inputs, **rows))
    if not (watch.wants("outlier_decoder") or watch.wants("flint_decoder")):
        return
    outliers, normals = codes_met(words, fmt)
    place = "codes met there, each once, in order of appearance"
    if outliers.size:
        exp_bits, man_bits = decoder(fmt)["outlier"]
        inputs = {"code": outliers, "bias": np.broadcast_to(np.uint8(bias(fmt)), outliers.shape)}
        case = model_case(f"{why}: outlier {place}", f"e{exp_bits}m{man_bits}", tensor, layer, inputs, **source)
        watch.emit(layer, "outlier_decoder", case)
    if decoder(fmt)["normal"] == "flint4" and normals.size:
        case = model_case(f"{why}: normal {place}", "flint4", tensor, layer, {"code": normals}, **source)
        watch.emit(layer, "flint_decoder", case)


def codes_met(words: np.ndarray, fmt: Ovp) -> tuple[np.ndarray, np.ndarray]:
    """The distinct codes next to an identifier, and the distinct normal codes, in order of appearance."""
    present, first = np.unique(words, return_index=True)
    codes = fmt.split(present[np.argsort(first, kind="stable")])
    victim = codes == fmt.normal.identifier
    beside = victim[:, ::-1] & ~victim
    return _once(codes[beside]), _once(codes[~victim & ~beside])


def _once(codes: np.ndarray) -> np.ndarray:
    values, first = np.unique(codes, return_index=True)
    return values[np.argsort(first, kind="stable")]
