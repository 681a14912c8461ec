"""Schemes `harmonia-kv8`, `harmonia-kv4`, `harmonia-kv4-naive`: block floating point in every layer [harmonia §III].

Inputs of linear layers, queries and scores are groups of 8-bit mantissas, weights INT4; keys and values keep `high`
bits for the first and the latest tokens and fall to `low` in between. Offline smoothing changes W_Q and W_K, online
smoothing shifts the keys. Norms, rotary positions, softmax, SiLU and the residual stream are those of scheme `fp16`
[D-harmonia-32]; embedding and output matrix stay FP16. A prompt is converted as a whole: its groups of V and the
exponents of those are the same for all of its queries, while bits are those that each query would see as the last
token [D-harmonia-19]. Decoding token by token gives other groups of V, and so other bits, by design. Llama-like
decoders and, as [harmonia §V-A] evaluates them, OPT-like ones, whose keys are not rotated.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.arith.records import parameters
from refemu.formats.bfp import ROUNDINGS, Bfp
from refemu.formats.bfp_dot import PRESETS
from refemu.formats.groupint import GroupInt
from refemu.models.backend import Backend
from refemu.models.encoder_config import EncoderConfig
from refemu.models.schemes.scheme import Prepared, Progress
from refemu.units.bit_allocator import Allocation
from refemu.units.k_offset import Offsets

if TYPE_CHECKING:
    from refemu.models.model import Model

CHOICES: dict[str, tuple[Any, ...]] = {
    "group": (16, 32, 64, 128),
    "weights": ("int4", "fp16"),
    "offline": (True, False),
    "online": (True, False),
    "preset": tuple(PRESETS),
    "product": ("fp32", "fp16"),
    "scale_per": (32, 128),
    "saturate": (False, True),
    "zero_point": (False, True),
    "v_granularity": ("group", "token"),
    "prefill_window": ("query", "end"),
    "rounding": ROUNDINGS,
    "special": ("error", "hw", "saturate"),
    "subnormals": ("keep", "flush"),
    "offset_scope": ("layer", "head"),
    "offset_sign": ("signed", "unsigned"),
    "scores": ("fp16", "fp32"),
    "score_scale": ("softmax", "fold"),
    "bias_add": ("after", "accumulator"),
    "residual": ("fp16", "fp32"),
    "target": ("heads", "block"),
    "calib_kv": ("low", "scheme"),
}
WEIGHT_GROUP = 128  #: inputs under one weight factor [harmonia Table I]


@parameters
class HarmoniaConfig:
    """Parameters of the Harmonia schemes."""

    paper: ClassVar[str] = "harmonia §III, §IV-A, §V-A"
    every_decoder: ClassVar[bool] = True

    act_mantissa: int = 8  #: mantissa bits of linear inputs, queries and scores
    high: int = 8  #: of the keys and values of the first and the latest tokens
    low: int = 4  #: of all others; equal to `high`: no difference is made
    group: int = 32  #: values under one exponent, and tokens of a group of V
    n_initial: int = 32  #: first tokens that keep `high`
    n_local: int = 64  #: latest tokens that keep it (D-harmonia-18)
    weights: str = "int4"  #: in groups of 128; "fp16": not quantized, for sweeps that look at activations alone
    offline: bool = True  #: factors learned for W_Q and W_K (D-harmonia-37, D-harmonia-38)
    online: bool = True  #: offsets subtracted from the keys (D-harmonia-38)
    preset: str = "paper"  #: "exact": partial sums stay exact (D-harmonia-7), zeros have no sign (D-harmonia-6)
    product: str = "fp32"  #: what a product with the weight factor is rounded to (D-harmonia-8)
    scale_per: int = 32  #: inputs whose sum meets the weight factor at once (D-harmonia-9)
    saturate: bool = False  #: FP32 results beyond FP16 become 65504 (D-harmonia-13)
    zero_point: bool = False  #: unsigned INT4 around a zero point (D-harmonia-14)
    v_granularity: str = "group"  #: "token": ordinary tokens of a high group of V lose their bits too (D-harmonia-17)
    prefill_window: str = "query"  #: bits of a prompt as each query sees them; "end": as its last one (D-harmonia-19)
    rounding: str = "truncate"  #: of a conversion (D-harmonia-2)
    special: str = "error"  #: infinity and NaN in a conversion (D-harmonia-5)
    subnormals: str = "keep"  #: (D-harmonia-4)
    offset_k: int | None = None  #: channels with an offset per scope; None: one in 32 (D-harmonia-24)
    offset_scope: str = "layer"  #: or "head"
    offset_sign: str = "signed"  #: (D-harmonia-23)
    scores: str = "fp16"  #: "fp32": scores go to the softmax unrounded (D-harmonia-28)
    score_scale: str = "softmax"  #: "fold": 1 / sqrt(head_dim) in W_Q (D-harmonia-27)
    bias_add: str = "after"  #: FP16, behind FP2Half; "accumulator": FP32, before (D-harmonia-29)
    residual: str = "fp16"  #: "fp32": the stream stays float32 (D-harmonia-32)
    smoothing: str | None = None  #: a file that `Smoothing.save` wrote; None: what ships with the model, or learn it
    target: str = "heads"  #: whose error the factors minimize; "block": of the whole block (D-harmonia-37)
    calib_tokens: int = 256  #: first tokens of the calibration text (D-harmonia-37)
    calib_kv: str = "low"  #: bits of keys and values while learning; "scheme": as a prompt has them (D-harmonia-37)

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            require_choice(getattr(self, name), allowed, "harmonia", name)
        require_int(self.act_mantissa, 1, 11, "harmonia", "act_mantissa")
        require_int(self.high, 1, 11, "harmonia", "high")
        require_int(self.low, 1, self.high, "harmonia", "low")
        require_int(self.calib_tokens, 32, 1 << 20, "harmonia", "calib_tokens")
        if self.offset_k is not None:
            require_int(self.offset_k, 0, 1 << 20, "harmonia", "offset_k")
        self.allocation()  # refuses counts of tokens
        if not isinstance(self.smoothing, str | None):
            raise Refused(f"harmonia: smoothing must be the path of a file, got {self.smoothing!r}")
        if self.scale_per == 128 and self.group > 32:
            raise Refused(f"harmonia: scale_per=128 adds groups of at most 32 values, got group={self.group}")

    def prepare(self, model: "Model", backend: Backend, calibration: Any, progress: Progress) -> Prepared:
        """Learn or read the factors of offline smoothing, then quantize the weights.

        calibration: token ids, or a `harmonia_smoothing.Smoothing`; None stands for the file that the configuration
        names, for the factors that ship with the model, or for the shipped calibration text.
        """
        from refemu.models.schemes import harmonia_search
        from refemu.models.schemes.harmonia_layers import Harmonia

        if isinstance(model.config, EncoderConfig):
            raise Refused(f"harmonia: {model.name} is an encoder; the paper's caches need a decoder")
        smoothing = harmonia_search.obtain(model, self, backend, calibration, progress)
        return Harmonia(model, self, backend, progress, smoothing)

    @property
    def taps(self) -> tuple[str, ...]:
        """Units whose ports a run can show."""
        from refemu.models.schemes import harmonia_taps

        return harmonia_taps.tapped(self)

    @property
    def partial(self) -> str:
        """What the sum of a group is rounded to."""
        return PRESETS[self.preset]

    def format(self, mantissa_bits: int) -> Bfp:
        """The block format of this width."""
        zero_sign = "keep" if self.preset == "paper" else "canonical"
        return Bfp(mantissa_bits, self.group, self.rounding, self.special, self.subnormals, zero_sign)

    def weight_format(self) -> GroupInt:
        """The format of INT4 weights."""
        return GroupInt(4, WEIGHT_GROUP, self.zero_point)

    def allocation(self) -> Allocation:
        """Which tokens and groups have `low` bits."""
        return Allocation(self.n_initial, self.n_local, self.high, self.low, self.group)

    def offsets(self, heads: int, head_dim: int) -> Offsets:
        """Which channels of the keys get an offset (D-harmonia-24)."""
        return Offsets(
            heads * head_dim,
            offset_k=self.offset_k,
            offset_scope=self.offset_scope,
            heads=heads,
            offset_sign=self.offset_sign,
        )


KV4 = HarmoniaConfig()
KV8 = dataclasses.replace(KV4, low=8, offline=False, online=False)
KV4_NAIVE = dataclasses.replace(KV4, high=4, offline=False, online=False)
