"""Schemes `olive-4` and `olive-8`: linear layers as integer matmuls of outlier-victim pairs [olive §3.4, §4].

Weights have one scale per output row and one type per tensor, inputs one static scale and type per tensor; both come
from the search of `formats.ovp_search`, the inputs' on a calibration text [D-olive-23, D-olive-29, D-olive-31]. Sums
are exact integers reduced to 32 bits [D-olive-33]; y = fl32(fl32(acc) * fl32(s_a * s_w)), rounded to fp16 [D-olive-42].
Everything else is scheme `fp16` [D-olive-32]. Scales are static and pairs lie inside a token, so that a decode step
gives the bits of the prefill.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, lookup, require_choice
from refemu.formats.ovp import (
    OVP_FLINT4,
    OVP_FLINT4_REPO,
    OVP_INT4,
    OVP_INT4_REPO,
    OVP_INT8,
    OVP_INT8_REPO,
    Ovp,
)
from refemu.models.backend import Backend
from refemu.models.runtime import Session
from refemu.models.schemes.fp16 import Fp16, Fp16Config
from refemu.models.schemes.olive_linear import Candidates, Part, Plain, Weight, quantize
from refemu.models.schemes.scheme import GROUPS, Prepared, Progress, silent

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.taps import Watch

HEAD = "lm_head"  #: name of the output matrix in `skip` and `eight_bit`
HEAD_LAYER = -1
FORMATS = {
    ("paper", 4): {"int": OVP_INT4, "flint": OVP_FLINT4},
    ("paper", 8): {"int": OVP_INT8},
    ("repo", 4): {"int": OVP_INT4_REPO, "flint": OVP_FLINT4_REPO},
    ("repo", 8): {"int": OVP_INT8_REPO},
}  #: by preset, bits and normal type


@dataclass(frozen=True)
class OliveConfig:
    """Parameters of the OliVe schemes; `act_bits=None` quantizes weights only [olive Tbl. 7]."""

    paper: ClassVar[str] = "olive §3.4, §4, §5.2"

    weight_bits: int = 4  #: 4 or 8
    act_bits: int | None = 4  #: as `weight_bits` (D-olive-41), or None
    types: tuple[str, ...] = ("int", "flint")  #: normal types to choose from at 4 bits (D-olive-29)
    outliers: bool = True  #: False: the baselines int4, int8 and ANT, which saturate
    preset: str = "paper"  #: or "repo": the published code's constants and search base
    low: int = 75  #: first candidate of the scale search, percent of the base (D-olive-27)
    high: int = 250  #: end of the candidates, not tried
    step: int = 2
    eight_bit: tuple[str, ...] = ()  #: linear layers at 8 bits: "blk.3.down", or "down" for every block
    n_eight_bit: int = 0  #: as many more, the last two and those with the largest error
    calibration: str = "sequential"  #: inputs as they arrive behind quantized layers; "float": of scheme `fp16`
    calibration_tokens: int = 512  #: of the calibration text, one sequence (D-olive-31)
    skip: tuple[str, ...] = (HEAD,)  #: linear layers that stay as in scheme `fp16` (D-olive-32)
    overflow: str = "wrap"  #: of the 32-bit sums; or "saturate", in the order of the dot-product unit (D-olive-33)

    def __post_init__(self) -> None:
        require_choice(self.weight_bits, (4, 8), "olive", "weight_bits")
        require_choice(self.act_bits, (self.weight_bits, None), "olive", "act_bits")
        require_choice(self.outliers, (True, False), "olive", "outliers")
        require_choice(self.preset, ("paper", "repo"), "olive", "preset")
        require_choice(self.calibration, ("sequential", "float"), "olive", "calibration")
        require_choice(self.overflow, ("wrap", "saturate"), "olive", "overflow")
        for name in ("low", "high", "step", "n_eight_bit", "calibration_tokens"):
            if type(getattr(self, name)) is not int or getattr(self, name) < (name != "n_eight_bit"):
                raise Refused(f"olive: {name} must be an integer of at least {int(name != 'n_eight_bit')}, "
                              f"got {getattr(self, name)!r}")
        if self.low >= self.high:
            raise Refused(f"olive: low must be below high, got {self.low}, {self.high}")
        if not self.types:
            raise Refused("olive: types must name int, flint or both, got none")
        for one in self.types:
            require_choice(one, ("int", "flint"), "olive", "types")

    def formats(self, bits: int) -> tuple[Ovp, ...]:
        """The pair formats that a tensor of `bits` bits chooses from; at 8 bits there is one (D-olive-29)."""
        ready = FORMATS[self.preset, bits]
        found = [ready[kind] for kind in (self.types if bits == 4 else ("int",))]
        return tuple(fmt if self.outliers else dataclasses.replace(fmt, outlier=None) for fmt in found)

    def prepare(
        self, model: "Model", backend: Backend, calibration: Sequence[int] | None, progress: Progress
    ) -> Prepared:
        """Search and encode the weights, then the scales of the inputs on the calibration tokens."""
        ids = calibration_ids(self, model, calibration) if self.act_bits else []
        store: dict[tuple[str, int], Weight] = {}
        prepared = Olive(model, self, backend, progress, store)
        prepared.calibrate(model, ids)
        if self.n_eight_bit:
            prepared = Olive(model, self, backend, progress, store, lossiest(prepared, self.n_eight_bit))
            prepared.calibrate(model, ids)
        return prepared


def calibration_ids(config: OliveConfig, model: "Model", given: Sequence[int] | None) -> list[int]:
    """The tokens to calibrate on: those given, or the first of the shipped calibration text."""
    if given is None:
        from refemu.models import text

        given = model.tokenizer.encode(text.calibration())[: config.calibration_tokens]
    if len(given) == 0:
        raise Refused("olive: act_bits needs calibration tokens, got none")
    return list(given)[: model.config.context]


class Olive(Fp16):
    """A model under an OliVe scheme."""

    def __init__(
        self,
        model: "Model",
        config: OliveConfig,
        backend: Backend,
        progress: Progress,
        store: dict[tuple[str, int], Weight],
        eight_bit: Sequence[str] = (),
    ) -> None:
        """store: weights encoded so far, by name and bits. eight_bit: layers at 8 bits beyond the configuration's."""
        self._olive, self._progress, self._store = config, progress, store
        self._widths = widths(model.config.blocks, config, eight_bit)
        super().__init__(model, config, backend, progress)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: "Watch") -> Sequence[np.ndarray]:
        """One encode of the input per width, one exact integer product, one rescale, one rounding."""
        outputs: dict[str, np.ndarray] = {}
        for part in self._linears[layer, tuple(names)]:
            self.freeze(part, x)
            y = self.backend.round16(part(x, watch))
            outputs.update({name: y[:, columns] for name, columns in part.columns.items()})
        return [outputs[linear_name(layer, name)] for name in names]

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """As in scheme `fp16` unless it is quantized; never rounded to fp16."""
        self.freeze(self._head, x)
        return self._head(x, watch)

    def calibrate(self, model: "Model", ids: Sequence[int]) -> None:
        """Freeze the scale and type of every linear input, in model order, on one sequence of tokens."""
        if self.parts():
            runner = self if self._olive.calibration == "sequential" else Observer(model, self)
            Session(runner).append(ids, last=isinstance(self._head, Plain))

    def freeze(self, part: Part | Plain, x: np.ndarray) -> None:
        """Search the input of a part that has not met one: only `calibrate` gets here before all are frozen."""
        if isinstance(part, Part) and part.input is None:
            part.freeze(x)
            parts = self.parts()
            self._progress("inputs", len([one for one in parts if one.input]), len(parts))

    def parts(self) -> list[Part]:
        """Every quantized part in model order."""
        groups = [*self._linears.values(), [self._head]]
        return [part for group in groups for part in group if isinstance(part, Part)]

    def group(self, layer: int, names: Sequence[str]) -> Sequence[Part | Plain]:
        """The parts that compute one of `GROUPS`."""
        return self._linears[layer, tuple(names)]

    def _prepare_group(self, model: "Model", layer: int, names: Sequence[str]) -> list[Part | Plain]:
        """The linear layers of a group, those of one width together."""
        by_width: dict[int | None, list[str]] = {}
        for name in names:
            by_width.setdefault(self._widths[linear_name(layer, name)], []).append(name)
        return [self._prepare_part(model, layer, same, bits) for bits, same in by_width.items()]

    def _prepare_head(self, model: "Model") -> Part | Plain:
        return self._prepare_group(model, HEAD_LAYER, ("embed" if self.model.tied_head else "head",))[0]

    def _prepare_part(self, model: "Model", layer: int, names: Sequence[str], bits: int | None) -> Part | Plain:
        full = [linear_name(layer, name) for name in names]
        if bits is None:
            return Plain(full, [fp16.to_f16(model.tensor(tensor_name(layer, name))) for name in names], self.backend)
        choice = candidates(self._olive, bits)
        weights = [self._weight(model, tensor_name(layer, name), bits, choice) for name in names]
        if self._olive.act_bits is None:
            return Plain(full, [weight.tensor.dequantize() for weight in weights], self.backend)
        return Part(layer, full, weights, choice, self._olive.overflow, self.backend)

    def _weight(self, model: "Model", name: str, bits: int, choice: Candidates) -> Weight:
        if (name, bits) not in self._store:
            self._store[name, bits] = quantize(name, model.tensor(name), choice, self.backend)
        return self._store[name, bits]


class Observer(Fp16):
    """Scheme `fp16` that freezes the inputs of an OliVe scheme as they pass: calibration "float"."""

    def __init__(self, model: "Model", target: Olive) -> None:
        super().__init__(model, Fp16Config(), target.backend, silent)
        self._target = target

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: "Watch") -> Sequence[np.ndarray]:
        """As scheme `fp16`, after a look at `x`."""
        for part in self._target.group(layer, names):
            self._target.freeze(part, x)
        return super().linear(layer, names, x, watch)

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """As scheme `fp16`, after a look at `x`."""
        for part in self._target.parts()[-1:]:
            self._target.freeze(part, x)
        return super().head(x, watch)


def linear_name(layer: int, name: str) -> str:
    """Name of a linear layer in `skip`, `eight_bit` and taps: "blk.3.down", or "lm_head"."""
    return HEAD if layer == HEAD_LAYER else f"blk.{layer}.{name}"


def tensor_name(layer: int, name: str) -> str:
    """Name of a linear layer's weight in the model."""
    return name if layer == HEAD_LAYER else f"blk.{layer}.{name}"


def candidates(config: OliveConfig, bits: int) -> Candidates:
    """What the searches of a width choose from (D-olive-26)."""
    base = "mean_sigma" if config.preset == "repo" else "sigma"
    return Candidates(config.formats(bits), base, config.low, config.high, config.step)


def widths(blocks: int, config: OliveConfig, eight_bit: Sequence[str]) -> dict[str, int | None]:
    """Bits of every linear layer by name, None where it stays as in scheme `fp16`; refuses names that do not exist."""
    kinds = {kind: [linear_name(layer, kind) for layer in range(blocks)] for group in GROUPS for kind in group}
    names = {**{name: [name] for group in kinds.values() for name in group}, HEAD: [HEAD]}
    found: dict[str, int | None] = dict.fromkeys(names, config.weight_bits)
    for bits, chosen in ((8, (*config.eight_bit, *eight_bit)), (None, config.skip)):
        for name in chosen:
            found.update(dict.fromkeys(lookup("linear layer", name, {**kinds, **names}), bits))
    return found


def lossiest(prepared: Olive, count: int) -> list[str]:
    """The layers that `n_eight_bit` raises to 8 bits: the last two, and those of largest weight plus input error."""
    errors = [(weight.mse + part.input.mse, name) for part in prepared.parts() if part.input is not None
              for name, weight in zip(part.names, part.weights, strict=True)]
    rest = sorted(errors[:-2], key=lambda error: -error[0])  # stable: a tie goes to the lower index
    return [name for _, name in (*errors[-2:], *rest[: max(count - 2, 0)])]
