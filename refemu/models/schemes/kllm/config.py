"""Schemes `kllm-a4`, `kllm-a3` and their static twins `-s`: K-Means indices in, FP16 out [kllm §III, §V-A].

Every matrix product of a block is an index product: weights and activations, keys and values are indices into trained
codebooks, scores are integers. Activations keep their largest and smallest values in FP16, found in each token by rank,
or, with `thresholds=static`, by limits from the calibration. Residual stream, norms' gains, logits of the attention,
embedding and output matrix stay FP16 [D-kllm-36]. Everything happens inside a token or on the cache, so that a decode
step gives the bits of the prefill.
"""

import dataclasses
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, ClassVar

from refemu.arith.checks import Refused, require_choice
from refemu.arith.records import parameters
from refemu.models.backend import Backend
from refemu.models.schemes.scheme import Prepared, Progress, require_layers

if TYPE_CHECKING:
    from refemu.models.model import Model

CHOICES: dict[str, tuple[Any, ...]] = {
    "thresholds": ("dynamic", "static"),
    "static_statistic": ("mean", "pooled"),
    "kv_outliers": (True, False),
    "gamma": ("weights", "activations"),
    "norm": ("delayed", "fp16"),
    "score_scale": ("fold", "max", "fixed"),
    "v_scale": ("token", "static"),
    "function_table": ("token", "offline", "literal"),
    "lm_head": ("fp16",),
    "quantizer": ("kmeans", "rtn"),
    "weight_sensitivity": ("input_moment", None),
    "act_sensitivity": (None, "column_norm"),
    "preset": ("paper", "exact"),
    "zero_point": (False,),
}
RANGES = {
    "act_bits": (1, 4),
    "weight_bits": (1, 4),
    "score_bits": (1, 8),
    "calibration_windows": (1, 1 << 20),
    "calibration_tokens": (1, 1 << 20),
}


@parameters
class KllmConfig:
    """Parameters of the KLLM schemes."""

    paper: ClassVar[str] = "kllm §III, §V-A"
    every_decoder: ClassVar[bool] = True

    act_bits: int = 4  #: index of activations, keys and values
    weight_bits: int = 4
    score_bits: int | None = None  #: of the unsigned integer scores; None: as `act_bits` (D-kllm-15)
    outlier_percent: str = "1"  #: of a token's values, half of it on each side, a decimal number (D-kllm-24)
    thresholds: str = "dynamic"  #: "static": outliers by calibrated limits, KLLM-S (D-kllm-30)
    static_statistic: str = "mean"  #: of the tokens' extreme inliers; "pooled": a rank over all values (D-kllm-30)
    kv_outliers: bool = True  #: False: keys and values without outliers (D-kllm-12)
    gamma: str = "weights"  #: the norm's gain folded into the weights; "activations": times x (D-kllm-18)
    norm: str = "delayed"  #: division behind the product; "fp16": before the quantization (D-kllm-18)
    score_scale: str = "fold"  #: V's scales in the integer scores; "max", "fixed" need `v_scale=static` (D-kllm-14)
    v_scale: str = "token"  #: "static": one scale for all tokens of V
    function_table: str = "token"  #: SiLU's table per token; "offline", "literal" (D-kllm-17)
    lm_head: str = "fp16"  #: the output matrix is not quantized (D-kllm-36)
    quantizer: str = "kmeans"  #: "rtn": integers by rounding, no outliers, the baseline
    weight_sensitivity: str | None = "input_moment"  #: what samples of weights weigh; None: 1 each (D-kllm-29)
    act_sensitivity: str | None = None  #: those of activations: None or "column_norm" (D-kllm-29)
    sensitivity: str | None = None  #: an .npz of sample weights by tensor, "blk.3.q", "blk.3.ffn_in" (D-kllm-29)
    preset: str = "paper"  #: the arithmetic, `KllmArith.preset` (D-kllm-1)
    zero_point: bool = False  #: refused: no unit forms its three terms (D-kllm-10)
    calibration: str | None = None  #: a file that `Calibration.save` wrote; None: calibrate
    calibration_windows: int = 16  #: of the calibration text, if it has as many
    calibration_tokens: int = 2048  #: of each window

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            require_choice(getattr(self, name), allowed, "kllm", name)
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not (name == "score_bits" and value is None) and (type(value) is not int or not low <= value <= high):
                raise Refused(f"kllm: {name} must be an integer in [{low}, {high}], got {value!r}")
        object.__setattr__(self, "outlier_percent", _percent(self.outlier_percent))
        for name in ("sensitivity", "calibration"):
            if not isinstance(getattr(self, name), str | None):
                raise Refused(f"kllm: {name} must be the path of a file, got {getattr(self, name)!r}")
        if self.score_scale != "fold" and not self.static("v"):
            raise Refused(f"kllm: score_scale {self.score_scale} needs one scale of V for all tokens, v_scale=static")
        if self.v_scale == "static" and not self.kv_outliers:
            raise Refused("kllm: v_scale=static finds outliers beyond its limits, got kv_outliers=false")
        if self.quantizer == "rtn" and self.act_bits < 2:
            raise Refused("kllm: integers need act_bits of at least 2, got 1")

    def prepare(self, model: "Model", backend: Backend, calibration: Any, progress: Progress) -> Prepared:
        """Calibrate or read what was calibrated, then encode the weights.

        calibration: token ids, or a `kllm_calibration.Calibration`; None stands for the file that the configuration
        names, or for the shipped calibration text.
        """
        if self.quantizer == "rtn":
            from refemu.models.schemes.kllm_rtn import KllmRtn

            return KllmRtn(model, self, backend, progress)
        from refemu.models.schemes import kllm_calibrate
        from refemu.models.schemes.kllm_layers import Kllm

        require_layers(self, model)
        self.require_gains(model)
        found = kllm_calibrate.obtain(model, self, backend, calibration, progress)
        return Kllm(model, self, backend, progress, found)

    @property
    def taps(self) -> tuple[str, ...]:
        """Units whose ports a run can show."""
        from refemu.models.schemes import kllm_taps

        return kllm_taps.tapped(self)

    @property
    def integer_bits(self) -> int:
        """Bits of the scores."""
        return self.act_bits if self.score_bits is None else self.score_bits

    def static(self, tensor: str, function: str = "gate") -> bool:
        """Whether the outliers and the scale of an activation come from the calibration.

        function: the activation that the feed-forward half takes a function of; "up" where there is no gate.
        """
        always = (tensor == "v" and self.v_scale == "static") or (
            tensor == function and self.function_table == "offline"
        )
        return always or self.thresholds == "static"

    def require_gains(self, model: "Model") -> None:
        """Refuse gains times x beside a delayed LayerNorm: the mean would meet sums that hold the gains (D-kllm-41)."""
        if getattr(model.config, "norm", "rms") == "layer" and self.gamma == "activations" and self.norm == "delayed":
            raise Refused(
                f"kllm: gamma=activations delays an RMSNorm only, and {model.name} has LayerNorm; "
                "use gamma=weights or norm=fp16"
            )

    def percent(self, tensor: str) -> str | None:
        """Percent of outliers of an activation; None: without."""
        return self.outlier_percent if self.kv_outliers or tensor not in ("k", "v") else None


def _percent(value: Any) -> str:
    """A decimal number in [0, 100) in one spelling."""
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
