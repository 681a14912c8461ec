"""Parameters of schemes `harmonia-kv8`, `harmonia-kv4`, `harmonia-kv4-naive`: block floating point [harmonia §III].

Inputs of linear layers, queries and scores are groups of 8-bit mantissas, weights INT4; keys and values keep `high`
bits for the first and the latest tokens and are demoted to `low` in between. Offline smoothing changes W_Q and W_K,
online smoothing shifts the keys. Norms, rotary positions, softmax, SiLU and the residual stream are those of scheme
`fp16` [D-harmonia-32]; embedding and output matrix stay FP16. A prompt is converted as a whole: all its queries see the
same groups of V with the same exponents, while the bits are those that each query would see as the last token
[D-harmonia-19]. Decoding token by token gives different groups of V, and so different bits, by design. For Llama-like
decoders and, as in [harmonia §V-A], OPT-like ones, whose keys are not rotated.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from refemu.arith.checks import Refused, require_int
from refemu.arith.fp16 import Subnormals
from refemu.arith.operands import Precision
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.groupint import GroupInt
from refemu.formats.harmonia.bfp import Bfp, BfpRounding, Special, ZeroSign
from refemu.formats.harmonia.bfp_dot import PRESETS, Preset, ScalePer
from refemu.models.schemes.scheme import Half, Scheme, Scope

WEIGHT_GROUP = 128  #: inputs under one weight factor [harmonia Table I]


@parameters
class HarmoniaConfig(Scheme):
    """Parameters of the Harmonia schemes."""

    paper: ClassVar[str] = "harmonia §III, §IV-A, §V-A"
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("linear", "attention")
    only: ClassVar[Mapping[Scope, frozenset[str]]] = {
        "linear": frozenset({"weights", "product", "scale_per", "zero_point", "bias_add"}),
        "attention": frozenset(
            {
                *("high", "low", "n_initial", "n_local", "offline", "online", "v_granularity", "prefill_window"),
                *("offset_k", "offset_scope", "offset_sign", "scores", "score_scale"),
                *("smoothing", "target", "calib_tokens", "calib_kv"),
            }
        ),
        "outer": frozenset({"residual"}),
    }

    act_mantissa: int = 8  #: mantissa bits of linear inputs, queries and scores
    high: int = 8  #: mantissa bits of the keys and values of the first and the latest tokens
    low: int = 4  #: mantissa bits of all other tokens
    group: Literal[16, 32, 64, 128] = 32  #: values under one exponent, and tokens of a group of V
    n_initial: int = 32  #: number of first tokens at `high` bits
    n_local: int = 64  #: number of latest tokens at `high` bits (D-harmonia-18)
    #: INT4 in groups of 128; "fp16": not quantized, to study activations alone
    weights: Literal["int4", "fp16"] = "int4"
    offline: bool = True  #: factors learned for W_Q and W_K (D-harmonia-37, D-harmonia-38)
    online: bool = True  #: offsets subtracted from the keys (D-harmonia-38)
    preset: Preset = "paper"  #: "exact": exact partial sums (D-harmonia-7), zeros without sign (D-harmonia-6)
    product: Precision = "fp32"  #: rounding of products with the weight factor (D-harmonia-8)
    scale_per: ScalePer = 32  #: inputs summed before the weight factor (D-harmonia-9)
    saturate: bool = False  #: FP32 results beyond FP16 become 65504 (D-harmonia-13)
    zero_point: bool = False  #: unsigned INT4 around a zero point (D-harmonia-14)
    #: "token": ordinary tokens of a high group of V are demoted too (D-harmonia-17)
    v_granularity: Literal["group", "token"] = "group"
    #: bits of a prompt as each query sees them; "end": as the last one does (D-harmonia-19)
    prefill_window: Literal["query", "end"] = "query"
    rounding: BfpRounding = "truncate"  #: rounding of a conversion (D-harmonia-2)
    special: Special = "error"  #: treatment of infinity and NaN (D-harmonia-5)
    subnormals: Subnormals = "keep"  #: treatment of subnormals (D-harmonia-4)
    offset_k: int | None = None  #: channels with an offset per scope; None: one in 32 (D-harmonia-24)
    offset_scope: Literal["layer", "head"] = "layer"  #: one set of offsets for all heads, or per head
    offset_sign: Literal["signed", "unsigned"] = (
        "signed"  #: offset from the signed peak, or from the largest magnitude (D-harmonia-23)
    )
    scores: Precision = "fp16"  #: "fp32": the softmax reads unrounded scores (D-harmonia-28)
    score_scale: Literal["softmax", "fold"] = "softmax"  #: "fold": 1 / sqrt(head_dim) in W_Q (D-harmonia-27)
    #: bias added in FP16, after FP2Half; "accumulator": in FP32, before (D-harmonia-29)
    bias_add: Literal["after", "accumulator"] = "after"
    residual: Precision = "fp16"  #: residual stream; "fp32": never rounded (D-harmonia-32)
    smoothing: str | None = None  #: file from `Smoothing.save`; None: the shipped factors, or learn them
    #: error that the factors minimize: of attention, or of the whole block (D-harmonia-37)
    target: Literal["heads", "block"] = "heads"
    calib_tokens: int = 512  #: length of the calibration text (D-harmonia-37)
    #: bits of keys and values while learning; "scheme": as in a prompt (D-harmonia-37)
    calib_kv: Literal["low", "scheme"] = "low"

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "harmonia")
        require_int(self.act_mantissa, 1, 11, "harmonia", "act_mantissa")
        require_int(self.high, 1, 11, "harmonia", "high")
        require_int(self.low, 1, self.high, "harmonia", "low")
        require_int(self.calib_tokens, 32, 1 << 20, "harmonia", "calib_tokens")
        if self.offset_k is not None:
            require_int(self.offset_k, 0, 1 << 20, "harmonia", "offset_k")
        for name in ("n_initial", "n_local"):
            require_int(getattr(self, name), 0, 1 << 24, "harmonia", name)
        if not isinstance(self.smoothing, str | None):
            raise Refused(f"harmonia: smoothing must be the path of a file, got {self.smoothing!r}")
        if self.scale_per == 128 and self.group > 32:
            raise Refused(f"harmonia: scale_per=128 adds groups of at most 32 values, got group={self.group}")

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ("attention",) if self.offline else ()

    @property
    def partial(self) -> Precision:
        """Format that the sum of a group is rounded to."""
        return PRESETS[self.preset]

    def format(self, mantissa_bits: int) -> Bfp:
        """Block format of this width."""
        zero_sign: ZeroSign = "keep" if self.preset == "paper" else "canonical"
        return Bfp(mantissa_bits, self.group, self.rounding, self.special, self.subnormals, zero_sign)

    def weight_format(self) -> GroupInt:
        """The format of INT4 weights."""
        return GroupInt(4, WEIGHT_GROUP, self.zero_point)


KV4 = HarmoniaConfig()
KV8 = dataclasses.replace(KV4, low=8, offline=False, online=False)
KV4_NAIVE = dataclasses.replace(KV4, high=4, offline=False, online=False)

READY = {"harmonia-kv8": KV8, "harmonia-kv4": KV4, "harmonia-kv4-naive": KV4_NAIVE}  #: by name of the scheme
