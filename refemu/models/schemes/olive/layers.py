"""Layers shared by decoders and encoders under the OliVe schemes: width of each layer, computation of a group.

The input of a group is encoded once per width; then one exact integer product and one rescale follow [olive §4]. The
scheme's `finish` computes the outputs from the float32 sums.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.formats.olive.ovp import Ovp
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import Recipe, prepared_cache
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.layers import Fp16Layers, columns
from refemu.models.schemes.olive import taps
from refemu.models.schemes.olive.config import HEAD, OliveConfig
from refemu.models.schemes.olive.linear import Candidates, Input, Part, Plain, Weight, quantize
from refemu.models.schemes.scheme import Progress
from refemu.models.taps import Watch

HEAD_LAYER = -1  #: layer number of the output matrix


class OliveLayers(Fp16Layers):
    """Linear layers of the OliVe schemes, for any kind of model."""

    def __init__(
        self,
        model: Model,
        config: OliveConfig,
        backend: Backend,
        progress: Progress,
        store: dict[tuple[str, int], Weight],
        eight_bit: Sequence[str] = (),
    ) -> None:
        """store: weights encoded so far, by name and bits. eight_bit: 8-bit layers beyond the configuration's."""
        self._olive, self._progress, self._store = config, progress, store
        self._prepared_cache = prepared_cache(model, backend, recipe(config))
        self._inputs = prepared_cache(model, backend, input_recipe(config))
        self._widths = widths(model_share.blocks(model), config, eight_bit, model.config.groups)
        super().__init__(model, config, backend, progress)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """One encoding of the input per width, one exact integer product, one rescale, one rounding."""
        by_name: dict[str, np.ndarray] = {}
        for part in self._linears[layer, tuple(names)]:
            y = self.finish(part.names, self.outputs(part, x, watch))
            by_name.update({name: y[:, columns] for name, columns in part.columns.items()})
        return [by_name[linear_name(layer, name)] for name in names]

    def outputs(self, part: Part | Plain, x: np.ndarray, watch: Watch) -> np.ndarray:
        """float32 outputs of a part, not rounded; counted and tapped if its input is quantized."""
        self.freeze(part, x)
        if isinstance(part, Plain):
            return part(x)
        product = part(x)
        watch.count("overflowed_outputs", product.overflowed)
        if watch.taps is not None:
            taps.emit(part, x, product.pairs, product.exact, watch)
        return product.outputs

    def freeze(self, part: Part | Plain, x: np.ndarray) -> None:
        """Search the input format of a part; only during `calibrate`, before all are frozen."""
        if isinstance(part, Part) and part.input is None:
            part.freeze(x)
            parts = self.parts()
            self._progress("inputs", len([other for other in parts if other.input]), len(parts))

    def parts(self) -> list[Part]:
        """Every quantized part in model order."""
        return [part for part in (*self.linears(), *self.head_parts()) if isinstance(part, Part)]

    def linears(self) -> list[Part | Plain]:
        """Every part of the blocks in model order, quantized or not."""
        return [part for group in self._linears.values() for part in group]

    def group(self, layer: int, names: Sequence[str]) -> Sequence[Part | Plain]:
        """The parts of a group of linear layers; none in a block that another part of a mix computes."""
        parts: Sequence[Part | Plain] = self._linears.get((layer, tuple(names)), ())
        return parts

    def head_parts(self) -> Sequence[Part | Plain]:
        """The output matrix, if the model has one."""
        return ()

    def wider(self, model: Model) -> Self | None:
        """A copy without frozen inputs and with the layers of `n_eight_bit` at 8 bits; None if that is 0."""
        count = self._olive.n_eight_bit
        if not count:
            return None
        return type(self)(model, self._olive, self.backend, self._progress, self._store, lossiest(self, count))

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> list[Part | Plain]:
        """Linear layers of a group, by width."""
        by_width: dict[int | None, list[str]] = {}
        for name in names:
            by_width.setdefault(self._widths[linear_name(layer, name)], []).append(name)
        return [self._prepare_part(model, layer, same, bits) for bits, same in by_width.items()]

    def _prepare_part(self, model: Model, layer: int, names: Sequence[str], bits: int | None) -> Part | Plain:
        full = [linear_name(layer, name) for name in names]
        if bits is None:
            matrix, parts = self._fp16_matrix(model, [tensor_name(layer, name) for name in names])
            return Plain(full, parts, matrix, self.backend)
        choice = candidates(self._olive, bits)
        weights = [self._weight(model, tensor_name(layer, name), bits, choice) for name in names]
        if self._olive.act_bits is None:
            rows = [weight.tensor.dequantize() for weight in weights]
            return Plain(full, columns(rows), self.backend.weights(np.concatenate(rows)), self.backend)
        return Part(layer, full, weights, choice, self._olive.overflow, self.backend, self._prepared_cache)

    def _weight(self, model: Model, name: str, bits: int, choice: Candidates) -> Weight:
        if (name, bits) not in self._store:

            def make() -> dict[str, np.ndarray]:
                return quantize(name, model.tensor(name), choice, self.backend).arrays(choice.formats)

            arrays = self._prepared_cache.item(f"{name}@{bits}", make)
            self._store[name, bits] = Weight.of_arrays(name, arrays, choice.formats)
        return self._store[name, bits]

    def search_inputs(self, ids: Any, run: Callable[[], object]) -> None:
        """Freeze the input of every part: as cached for the same tokens, or as searched during `run`."""
        key = json.dumps([[int(token) for token in np.ravel(text)] for text in ids])
        name = f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.{self.model.blocks}.{wide_digest(self._widths)}"

        def make() -> dict[str, np.ndarray]:
            run()
            return inputs_arrays(self.parts())

        arrays = self._inputs.item(name, make)
        for number, part in enumerate(self.parts()):
            if part.input is None:
                part.set_input(input_of(arrays, number, part.candidates.formats))


def recipe(config: OliveConfig) -> Recipe:
    """Everything that the search of a weight depends on, except its width."""
    names = ("types", "outliers", "preset", "low", "high", "step")
    sources = (
        "formats/*.py",
        "formats/olive/**/*.py",
        "models/schemes/olive/**/l*.py",
        "models/schemes/olive/steps.py",
    )
    return Recipe("olive", sources, {name: getattr(config, name) for name in names}, width=2.5)


def input_recipe(config: OliveConfig) -> Recipe:
    """Everything that the search of the inputs depends on: the whole computation."""
    return Recipe("olive-inputs", ("formats/**/*.py", "models/**/*.py"), dataclasses.asdict(config), width=0)


def inputs_arrays(parts: Sequence[Part]) -> dict[str, np.ndarray]:
    """The frozen inputs, for a file."""
    frozen = [(part.input, part.candidates.formats) for part in parts if part.input is not None]
    return {
        "format": np.array([formats.index(search.format) for search, formats in frozen], np.int64),
        "scale": np.array([search.scale for search, _ in frozen], np.float32),
        "mse": np.array([search.mse for search, _ in frozen], np.float64),
    }


def input_of(arrays: Mapping[str, np.ndarray], number: int, formats: Sequence[Ovp]) -> Input:
    """A frozen input from `inputs_arrays`."""
    fmt = formats[int(arrays["format"][number])]
    return Input(fmt, np.float32(arrays["scale"][number]), float(arrays["mse"][number]))


def wide_digest(widths: Mapping[str, int | None]) -> str:
    """Digest of the widths of all linear layers."""
    return hashlib.sha256(json.dumps(widths, sort_keys=True).encode()).hexdigest()[:16]


class Observing(Fp16Layers):
    """Scheme `fp16` that freezes the inputs of an OliVe scheme as they pass: calibration "float"."""

    _target: OliveLayers

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """As in scheme `fp16`, after the input `x` is frozen."""
        for part in self._target.group(layer, names):
            self._target.freeze(part, x)
        return super().linear(layer, names, x, watch)


def linear_name(layer: int, name: str) -> str:
    """Name of a linear layer in `skip`, `eight_bit` and taps: "blk.3.down", or "lm_head"."""
    return HEAD if layer == HEAD_LAYER else f"blk.{layer}.{name}"


def tensor_name(layer: int, name: str) -> str:
    """Name of a linear layer's weight in the model."""
    return name if layer == HEAD_LAYER else f"blk.{layer}.{name}"


def candidates(config: OliveConfig, bits: int) -> Candidates:
    """Search candidates of a width (D-olive-26)."""
    base = "mean_sigma" if config.preset == "repo" else "sigma"
    return Candidates(config.formats(bits), base, config.low, config.high, config.step)


def widths(
    blocks: Sequence[int], config: OliveConfig, eight_bit: Sequence[str], groups: Sequence[Sequence[str]]
) -> dict[str, int | None]:
    """Bits of every linear layer by name; None: computed as in scheme `fp16`.

    Raises Refused for an unknown name, and for a layer in both `eight_bit` and `skip`.
    """
    kinds = {kind: [linear_name(layer, kind) for layer in blocks] for group in groups for kind in group}
    every = {**kinds, **{name: [name] for group in kinds.values() for name in group}, HEAD: [HEAD]}
    wide, plain = (
        [name for layer in chosen for name in lookup("linear layer", layer, every)]
        for chosen in ((*config.eight_bit, *eight_bit), config.skip)
    )
    if both := [name for name in wide if name in plain]:
        raise Refused(
            f"olive: eight_bit names {both[0]}, which skip={'+'.join(config.skip)} computes as in scheme fp16; "
            "remove it from one of them (skip=none skips no layer)"
        )
    bits: dict[str, int | None] = {name: config.weight_bits for names in every.values() for name in names}
    return bits | dict.fromkeys(wide, 8) | dict.fromkeys(plain, None)


def lossiest(prepared: OliveLayers, count: int) -> list[str]:
    """The layers that `n_eight_bit` widens: the last two at 4 bits, then those of largest weight plus input error."""
    errors = [
        (weight.mse + part.input.mse, name)
        for part in prepared.parts()
        if part.input is not None
        for name, weight in zip(part.names, part.weights, strict=True)
        if weight.format.width == 4
    ]
    if count > len(errors):
        raise Refused(f"olive: n_eight_bit must be at most {len(errors)}, the layers at 4 bits, got {count}")
    rest = sorted(errors[:-2], key=lambda error: -error[0])  # stable: a tie goes to the lower index
    return [name for _, name in (*errors[-2:], *rest[: max(count - 2, 0)])]
