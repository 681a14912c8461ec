"""Schemes `kllm-a4` and `kllm-a3`, and `-s` with static thresholds: K-Means indices in, FP16 out [kllm §III, §V-A].

Every matrix product of a block is an index product: weights and activations, keys and values are indices into trained
codebooks, scores are integers. Activations keep their largest and smallest values in FP16, found in each token by rank,
or, with `thresholds=static`, by limits from the calibration. Residual stream, gains of norms, attention logits,
embedding and output matrix stay FP16 [D-kllm-36]. Every step is inside a token or on the cache, so a decode step has
the bits of the prefill.
"""

import dataclasses
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal

from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.kllm.kllm_arith import Preset
from refemu.formats.kllm.kmeans_outliers import ThresholdStatistic
from refemu.models.model import Model
from refemu.models.schemes.scheme import Half, Scheme, Scope

RANGES = {
    "act_bits": (1, 4),
    "weight_bits": (1, 4),
    "score_bits": (1, 8),
    "calibration_windows": (1, 1 << 20),
    "calibration_tokens": (1, 1 << 20),
}


@parameters
class KllmConfig(Scheme):
    """Parameters of the KLLM schemes."""

    paper: ClassVar[str] = "kllm §III, §V-A"
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("linear", "attention")
    only: ClassVar[Mapping[Scope, frozenset[str]]] = {
        "linear": frozenset({"weight_bits", "gamma", "norm", "function_table", "weight_sensitivity"}),
        "attention": frozenset({"score_bits", "kv_outliers", "score_scale", "v_scale"}),
    }

    act_bits: int = 4  #: bits of an index of activations, keys and values
    weight_bits: int = 4  #: bits of an index of a weight
    score_bits: int | None = None  #: bits of the unsigned integer scores; None: as `act_bits` (D-kllm-15)
    outlier_percent: str = "1"  #: outliers of a token, half on each side, a decimal number (D-kllm-24)
    thresholds: Literal["dynamic", "static"] = "dynamic"  #: "static": outliers by calibrated limits, KLLM-S (D-kllm-30)
    #: limits from the tokens' extreme inliers; "pooled": from a rank over all values (D-kllm-30)
    static_statistic: ThresholdStatistic = "mean"
    kv_outliers: bool = True  #: False: keys and values without outliers (D-kllm-12)
    #: the norm's gain is in the weights; "activations": it multiplies x (D-kllm-18)
    gamma: Literal["weights", "activations"] = "weights"
    #: the norm divides after the product; "fp16": before the quantization (D-kllm-18)
    norm: Literal["delayed", "fp16"] = "delayed"
    #: V's scales are in the integer scores; "max", "fixed" need `v_scale=static` (D-kllm-14)
    score_scale: Literal["fold", "max", "fixed"] = "fold"
    v_scale: Literal["token", "static"] = "token"  #: "static": one scale for all tokens of V
    #: SiLU's table per token; "offline", "literal" (D-kllm-17)
    function_table: Literal["token", "offline", "literal"] = "token"
    lm_head: Literal["fp16"] = "fp16"  #: the output matrix is not quantized (D-kllm-36)
    quantizer: Literal["kmeans", "rtn"] = "kmeans"  #: "rtn": integers by rounding, no outliers, the baseline
    #: weights of the samples of weights; None: 1 each (D-kllm-29)
    weight_sensitivity: Literal["input_moment"] | None = "input_moment"
    act_sensitivity: Literal["column_norm"] | None = None  #: weights of the samples of activations (D-kllm-29)
    sensitivity: str | None = None  #: an .npz of sample weights by tensor, "blk.3.q", "blk.3.ffn_in" (D-kllm-29)
    preset: Preset = "paper"  #: the arithmetic, `KllmArith.preset` (D-kllm-1)
    zero_point: Literal[False] = False  #: always False: no unit forms its three terms (D-kllm-10)
    calibration: str | None = None  #: file from `Calibration.save`; None: calibrate
    calibration_windows: int = 16  #: most windows of the calibration text
    calibration_tokens: int = 2048  #: length of each window

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "kllm")
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not (name == "score_bits" and value is None) and (type(value) is not int or not low <= value <= high):
                raise Refused(f"kllm: {name} must be an integer in [{low}, {high}], got {value!r}")
        object.__setattr__(self, "outlier_percent", _percent(self.outlier_percent))
        for name in ("sensitivity", "calibration"):
            if not isinstance(getattr(self, name), str | None):
                raise Refused(f"kllm: {name} must be the path of a file, got {getattr(self, name)!r}")
        if self.score_scale != "fold" and not self.static("v"):
            raise Refused(
                f"kllm: score_scale={self.score_scale} needs one scale of V for all tokens; use v_scale=static"
            )
        if self.v_scale == "static" and not self.kv_outliers:
            raise Refused("kllm: v_scale=static needs kv_outliers=true, got false")
        if self.quantizer == "rtn" and self.act_bits < 2:
            raise Refused("kllm: act_bits must be at least 2 with quantizer=rtn, got 1")

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ("linear", "attention") if self.quantizer == "kmeans" else ()

    @property
    def scales_queries(self) -> bool:
        """Whether linear layers put 1 / sqrt(head_dim) into queries, and attention expects it."""
        return self.quantizer == "kmeans"

    @property
    def encodes_stream(self) -> bool:
        """Whether linear layers encode the residual stream itself, which then holds fp16 values."""
        return self.quantizer == "kmeans" and self.norm == "delayed"

    @property
    def integer_bits(self) -> int:
        """Bits of the scores."""
        return self.act_bits if self.score_bits is None else self.score_bits

    def static(self, tensor: str, function: str = "gate") -> bool:
        """Whether the outliers and the scale of an activation come from the calibration.

        function: argument of the activation in the feed-forward half; "up" without a gate.
        """
        always = (tensor == "v" and self.v_scale == "static") or (
            tensor == function and self.function_table == "offline"
        )
        return always or self.thresholds == "static"

    def require_gains(self, model: Model) -> None:
        """Reject gamma=activations with a delayed LayerNorm: the sums would include the gains (D-kllm-41)."""
        if getattr(model.config, "norm", "rms") == "layer" and self.gamma == "activations" and self.norm == "delayed":
            raise Refused(
                f"kllm: gamma=activations delays an RMSNorm only, got {model.name} with LayerNorm; "
                "use gamma=weights or norm=fp16"
            )

    def percent(self, tensor: str) -> str | None:
        """Percentage of outliers of an activation; None: no outliers."""
        return self.outlier_percent if self.kv_outliers or tensor not in ("k", "v") else None


def _percent(value: Any) -> str:
    """A decimal number in [0, 100), in its shortest form."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("nan")
    if isinstance(value, bool) or not number.is_finite() or not 0 <= number < 100:
        raise Refused(f"kllm: outlier_percent must be a decimal number in [0, 100), got {value!r}")
    return format(number.normalize(), "f")


A4 = KllmConfig()
A3 = KllmConfig(act_bits=3)
A4_S = dataclasses.replace(A4, thresholds="static")
A3_S = dataclasses.replace(A3, thresholds="static")

READY = {"kllm-a4": A4, "kllm-a4-s": A4_S, "kllm-a3": A3, "kllm-a3-s": A3_S}  #: by name of the scheme
