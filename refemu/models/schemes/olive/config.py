"""Parameters of schemes `olive-4` and `olive-8` [olive §3.4, §4], and of `olive-study` [olive §2.3]."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias, get_args

from refemu.arith.checks import Refused, require_choice
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.olive.ovp import OVP_FLINT4, OVP_FLINT4_REPO, OVP_INT4, OVP_INT4_REPO, OVP_INT8, OVP_INT8_REPO, Ovp
from refemu.models.schemes.scheme import Half, Scheme

HEAD = "lm_head"  #: name of the output matrix in `skip` and `eight_bit`
Experiment: TypeAlias = Literal["clip", "prune_victims", "prune_normals"]  #: the experiments of [olive Fig. 3]
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)
FORMATS = {
    ("paper", 4): {"int": OVP_INT4, "flint": OVP_FLINT4},
    ("paper", 8): {"int": OVP_INT8},
    ("repo", 4): {"int": OVP_INT4_REPO, "flint": OVP_FLINT4_REPO},
    ("repo", 8): {"int": OVP_INT8_REPO},
}  #: pair formats by preset, bits and normal type


@parameters
class OliveConfig(Scheme):
    """Parameters of the OliVe schemes; `act_bits=None` quantizes weights only [olive Tbl. 7]."""

    paper: ClassVar[str] = "olive §3.4, §4, §5.2"
    encoders: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("linear",)
    other_half: ClassVar[str] = (
        "OliVe has no attention of its own (D-olive-32), so it cannot be the last part; append +fp16"
    )

    weight_bits: Literal[4, 8] = 4  #: bits of a weight's code
    act_bits: Literal[4, 8] | None = 4  #: bits of an input's code, equal to `weight_bits` (D-olive-41), or None
    types: tuple[Literal["int", "flint"], ...] = ("int", "flint")  #: normal types to choose from at 4 bits (D-olive-29)
    outliers: bool = True  #: False: the baselines int4, int8 and ANT, which saturate
    preset: Literal["paper", "repo"] = "paper"  #: "repo": constants and search base of the published code
    low: int = 75  #: first candidate of the scale search, percent of the base (D-olive-27)
    high: int = 250  #: end of the candidates, exclusive
    step: int = 2  #: step between candidates, percent of the base
    eight_bit: tuple[str, ...] = ()  #: linear layers at 8 bits: "blk.3.down", or "down" for every block
    n_eight_bit: int = 0  #: further layers at 8 bits: the last two (1 adds both), then the largest errors
    #: "sequential": inputs as they arrive after quantized layers; "float": inputs of scheme `fp16`
    calibration: Literal["sequential", "float"] = "sequential"
    calibration_tokens: int = 512  #: length of the calibration text, one sequence (D-olive-31)
    skip: tuple[str, ...] = (HEAD,)  #: linear layers computed as in scheme `fp16` (D-olive-32)
    #: 32-bit sums; "saturate": in the order of the dot-product unit (D-olive-33)
    overflow: Literal["wrap", "saturate"] = "wrap"

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "olive")
        require_choice(self.act_bits, (self.weight_bits, None), "olive", "act_bits")
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
        for name in ("eight_bit", "skip"):
            for layer in getattr(self, name):
                if type(layer) is not str:
                    raise Refused(f"olive: {name} must be names of linear layers, got {layer!r}")
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """Reject options without an effect: mixed widths at 8 bits, options of inputs that are not quantized."""
        if self.weight_bits == 8:
            if "int" not in self.types:
                raise Refused(f"olive: types must include int at weight_bits=8, got {', '.join(self.types)}")
            self._require_defaults("weight_bits=8", ("eight_bit", "n_eight_bit"))
        if self.act_bits is None:
            self._require_defaults("act_bits=none", ("n_eight_bit", "calibration", "calibration_tokens", "overflow"))

    def _require_defaults(self, beside: str, names: Sequence[str]) -> None:
        for field in dataclasses.fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise Refused(f"olive: {field.name} has no effect with {beside}, got {getattr(self, field.name)!r}")

    @property
    def looks_at_blocks(self) -> bool:
        """True for `n_eight_bit`, which chooses among all layers, and for options that name blocks."""
        return self.n_eight_bit > 0 or any(name.startswith("blk.") for name in (*self.eight_bit, *self.skip))

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ("linear",) if self.act_bits else ()

    @property
    def arriving_tokens(self) -> int | None:
        """Calibration tokens of the run that freezes inputs as they arrive, the last run; None: no such run."""
        return self.calibration_tokens if self.act_bits and self.calibration == "sequential" else None

    def formats(self, bits: int) -> tuple[Ovp, ...]:
        """Candidate pair formats of a tensor of `bits` bits; at 8 bits there is one (D-olive-29)."""
        ready = FORMATS[self.preset, bits]
        chosen = [ready[kind] for kind in (self.types if bits == 4 else ("int",))]
        return tuple(fmt if self.outliers else dataclasses.replace(fmt, outlier=None) for fmt in chosen)


@parameters
class OliveStudyConfig(Scheme):
    """Parameters of scheme `olive-study`."""

    paper: ClassVar[str] = "olive §2.3, Fig. 3"
    encoders: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("linear",)
    other_half: ClassVar[str] = (
        "OliVe has no attention of its own (D-olive-32), so it cannot be the last part; append +fp16"
    )

    #: clip outliers, set their neighbours to 0, or set as many normal values to 0 [olive Fig. 3]
    experiment: Experiment = "clip"
    weights: bool = True  #: apply it to the weights of the linear layers
    inputs: bool = True  #: apply it to their inputs
    sigma: float = 3  #: standard deviations of the tensor beyond which a value is an outlier (D-olive-43)
    seed: int = 0  #: random seed of the normal values that are pruned (D-olive-44)
    calibration_tokens: int = 512  #: length of the calibration text, one sequence (D-olive-31)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "olive-study")
        if type(self.sigma) not in (int, float) or not 0 < self.sigma < float("inf"):
            raise Refused(f"olive-study: sigma must be a finite number above 0, got {self.sigma!r}")
        for name, least in (("seed", 0), ("calibration_tokens", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise Refused(
                    f"olive-study: {name} must be an integer of at least {least}, got {getattr(self, name)!r}"
                )

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ("linear",) if self.inputs else ()

    @property
    def arriving_tokens(self) -> int | None:
        """Calibration tokens of the run that finds thresholds of inputs as they arrive; None: there is no such run."""
        return self.calibration_tokens if self.inputs else None


READY: dict[str, OliveConfig | OliveStudyConfig] = {  #: by name of the scheme
    "olive-4": OliveConfig(),
    "olive-8": OliveConfig(weight_bits=8, act_bits=8),
    "olive-study": OliveStudyConfig(),
}
