"""Schemes `olive-4` and `olive-8`: linear layers as integer matmuls of outlier-victim pairs [olive §3.4, §4].

Weights have one scale per output row and one type per tensor, inputs one static scale and type per tensor; both come
from the search of `formats.ovp_search`, the inputs' on a calibration text [D-olive-23, D-olive-29, D-olive-31]. Sums
are exact integers reduced to 32 bits [D-olive-33]; y = fl32(fl32(acc) * fl32(s_a * s_w)), rounded to fp16 [D-olive-42].
Everything else is scheme `fp16` [D-olive-32]. Scales are static and pairs lie inside a token, so that a decode step
gives the bits of the prefill.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from refemu.arith.checks import Refused, require_choice
from refemu.arith.records import parameters
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
from refemu.models.encoder_config import EncoderConfig
from refemu.models.runtime import Session
from refemu.models.schemes.fp16 import Fp16, Fp16Config
from refemu.models.schemes.olive_layers import HEAD, HEAD_LAYER, Observing, OliveLayers
from refemu.models.schemes.olive_linear import Part, Plain, Weight
from refemu.models.schemes.scheme import Prepared, Progress, silent

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.taps import Watch

FORMATS = {
    ("paper", 4): {"int": OVP_INT4, "flint": OVP_FLINT4},
    ("paper", 8): {"int": OVP_INT8},
    ("repo", 4): {"int": OVP_INT4_REPO, "flint": OVP_FLINT4_REPO},
    ("repo", 8): {"int": OVP_INT8_REPO},
}  #: by preset, bits and normal type


@parameters
class OliveConfig:
    """Parameters of the OliVe schemes; `act_bits=None` quantizes weights only [olive Tbl. 7]."""

    paper: ClassVar[str] = "olive §3.4, §4, §5.2"
    encoders: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True

    weight_bits: int = 4  #: 4 or 8
    act_bits: int | None = 4  #: as `weight_bits` (D-olive-41), or None
    types: tuple[str, ...] = ("int", "flint")  #: normal types to choose from at 4 bits (D-olive-29)
    outliers: bool = True  #: False: the baselines int4, int8 and ANT, which saturate
    preset: str = "paper"  #: or "repo": the published code's constants and search base
    low: int = 75  #: first candidate of the scale search, percent of the base (D-olive-27)
    high: int = 250  #: end of the candidates, not tried
    step: int = 2
    eight_bit: tuple[str, ...] = ()  #: linear layers at 8 bits: "blk.3.down", or "down" for every block
    n_eight_bit: int = 0  #: as many more of those at 4 bits: the last two (1 adds both), then the largest errors
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
                raise Refused(
                    f"olive: {name} must be an integer of at least {int(name != 'n_eight_bit')}, "
                    f"got {getattr(self, name)!r}"
                )
        if self.low >= self.high:
            raise Refused(f"olive: low must be below high, got {self.low}, {self.high}")
        if not self.types:
            raise Refused("olive: types must name int, flint or both, got none")
        for one in self.types:
            require_choice(one, ("int", "flint"), "olive", "types")
        for name in ("eight_bit", "skip"):
            for layer in getattr(self, name):
                if type(layer) is not str:
                    raise Refused(f"olive: {name} must hold names of linear layers, got {layer!r}")
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Refuse options without an effect: mixed widths at 8 bits, and what is about inputs where there are none."""
        if self.weight_bits == 8:
            if "int" not in self.types:
                raise Refused(f"olive: types must hold int at weight_bits=8, got {', '.join(self.types)}")
            self._require_defaults("weight_bits=8", ("eight_bit", "n_eight_bit"))
        if self.act_bits is None:
            self._require_defaults("act_bits=none", ("n_eight_bit", "calibration", "calibration_tokens", "overflow"))

    def _require_defaults(self, beside: str, names: Sequence[str]) -> None:
        for field in dataclasses.fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise Refused(f"olive: {field.name} has no effect beside {beside}, got {getattr(self, field.name)!r}")

    @property
    def taps(self) -> tuple[str, ...]:
        """Units whose ports a run can show."""
        from refemu.models.schemes import olive_taps

        return olive_taps.tapped(self)

    def formats(self, bits: int) -> tuple[Ovp, ...]:
        """The pair formats that a tensor of `bits` bits chooses from; at 8 bits there is one (D-olive-29)."""
        ready = FORMATS[self.preset, bits]
        found = [ready[kind] for kind in (self.types if bits == 4 else ("int",))]
        return tuple(fmt if self.outliers else dataclasses.replace(fmt, outlier=None) for fmt in found)

    def prepare(
        self, model: "Model", backend: Backend, calibration: Sequence[int] | None, progress: Progress
    ) -> Prepared:
        """Search and encode the weights, then the scales of the inputs on the calibration tokens."""
        from refemu.models.schemes.olive_encoder import OliveEncoder

        kind: Any = OliveEncoder if isinstance(model.config, EncoderConfig) else Olive
        ids = kind.calibration(self, model, calibration) if self.act_bits else []
        store: dict[tuple[str, int], Weight] = {}
        prepared = kind(model, self, backend, progress, store)
        prepared.calibrate(model, ids)
        if self.n_eight_bit:
            prepared = kind(model, self, backend, progress, store, lossiest(prepared, self.n_eight_bit))
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


class Olive(OliveLayers, Fp16):
    """A decoder under an OliVe scheme."""

    @staticmethod
    def calibration(config: OliveConfig, model: "Model", given: Sequence[int] | None) -> list[int]:
        """What `calibrate` reads."""
        return calibration_ids(config, model, given)

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """As in scheme `fp16` unless it is quantized; never rounded to fp16."""
        self.freeze(self._head, x)
        return self._head(x, watch)

    def calibrate(self, model: "Model", ids: Sequence[int]) -> None:
        """Freeze the scale and type of every linear input, in model order, on one sequence of tokens."""
        if self.parts():
            runner = self if self._olive.calibration == "sequential" else Observer(model, self)
            Session(runner).append(ids, last=isinstance(self._head, Plain))

    def _prepare_head(self, model: "Model") -> Part | Plain:
        return self._prepare_group(model, HEAD_LAYER, ("embed" if self.model.tied_head else "head",))[0]

    def _head_parts(self) -> Sequence[Part | Plain]:
        return [self._head]


class Observer(Observing, Fp16):
    """A decoder under scheme `fp16` that freezes the inputs of an OliVe scheme."""

    def __init__(self, model: "Model", target: Olive) -> None:
        super().__init__(model, Fp16Config(), target.backend, silent)
        self._target = target

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """As scheme `fp16`, after a look at `x`."""
        for part in self._target.parts()[-1:]:
            self._target.freeze(part, x)
        return super().head(x, watch)


def lossiest(prepared: OliveLayers, count: int) -> list[str]:
    """The layers that `n_eight_bit` raises: the last two at 4 bits, then the largest weight plus input error."""
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
