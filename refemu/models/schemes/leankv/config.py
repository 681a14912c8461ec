"""Parameters of schemes `leankv`, `leankv-k8v4`, ...: a KV cache in pages of one or two precisions [leankv §4-§6].

Everything except attention is scheme `fp16`. The prompt attends to its full-precision keys and values; then its tokens
are pruned, or stored at the low or the high precision, according to the attention they got. Every later token is stored
first, in exchange for another one if the policy says so, and attends to the pages. Prompt and decode therefore differ:
the first call of a session is the prompt, and every token after it a step.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.leankv import hetero_kv, kv_layout
from refemu.formats.leankv.affine import Preset
from refemu.formats.leankv.hetero_kv import PairName
from refemu.models.schemes.scheme import Half, Scheme

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "policy": "algorithm1",
        "sort": "stable",
        "score_queries": 0,
        "include_self": False,
        "normalize": True,
        "softmax_div": "div",
        "softmax_eps": 0.0,
        "partition_tokens": 0,
        "lazy_pages": True,
        "reserve_low": 0,
        "table_extra": 1,
    },
    "diffkv": {
        "policy": "diffkv",
        "sort": "bitonic",
        "score_queries": 64,
        "include_self": True,
        "normalize": False,
        "softmax_div": "recip_mul",
        "softmax_eps": float(np.float32(1e-6)),
        "partition_tokens": 4800,
        "lazy_pages": False,
        "reserve_low": 1,
        "table_extra": 2,
    },
}  #: values of fields that are None
Policy: TypeAlias = Literal["algorithm1", "diffkv", "static"]
Rule: TypeAlias = Literal["cumulative", "per_token", "static"]
#: rule of the prompt, by policy
RULES: dict[Policy, Rule] = {"algorithm1": "cumulative", "diffkv": "per_token", "static": "static"}
Quirk: TypeAlias = Literal["score_by_rank", "lane_max", "position_epoch", "partition_score"]
QUIRKS: tuple[Quirk, ...] = get_args(Quirk)
RANGES = {
    **dict.fromkeys(("keep_percent", "score_queries", "partition_tokens", "table_extra", "reserve_low"), 0),
    **dict.fromkeys(("window", "workers", "slots", "max_len", "num_pages", "table_tokens"), 1),
    **dict.fromkeys(("k_vec", "k_group", "v_vec", "v_group"), 1),
    "page_bytes": 2,
}  #: least values of integers
FRACTIONS = ("t_low", "t_high", "alpha_prune", "alpha_quant", "softmax_eps")


@parameters
class LeanKvConfig(Scheme):
    """Parameters of the LeanKV schemes. None: set by the preset or the model."""

    paper: ClassVar[str] = "leankv §4, §5, §6"
    experts: ClassVar[bool] = True
    every_decoder: ClassVar[bool] = True
    halves: ClassVar[tuple[Half, ...]] = ("attention",)
    other_half: ClassVar[str] = "LeanKV has no linear layers of its own, so it can only be the last part"

    high: PairName = "K8V4"  #: precision of significant tokens and of the window, a name of `hetero_kv.PAIRS`
    low: PairName | None = "K4V2"  #: precision of the others; None: one precision
    preset: Preset = "paper"  #: "diffkv": the later published code
    policy: Policy | None = None  #: policy of the steps (D-leankv-26)
    window: int = 64  #: W, the newest tokens, which stay at the high precision
    t_low: float = 0.0  #: T_l, below which tokens are pruned (D-leankv-51)
    t_high: float = 0.01  #: T_h, below which they are low
    alpha_prune: float = 0.02  #: rule "per_token", policy "diffkv": a token is pruned below alpha_prune / tokens
    alpha_quant: float = 1.0  #: same rule and policy: low precision below alpha_quant / tokens
    keep_percent: int = 100  #: budget of every head under policy "static"
    rule: Rule | None = None  #: rule of the prompt; None: by the policy (D-leankv-20)
    sort: Literal["stable", "bitonic"] | None = None  #: order of a prompt's tokens (D-leankv-23)
    low_cumsum: Literal["total", "restart"] = "total"  #: where sums of low tokens start (D-leankv-21)
    score_rule: Literal["share", "cumulative"] = "share"  #: significance that Algorithm 1 compares (D-leankv-27)
    score_queries: int | None = None  #: last queries of a prompt that count; 0: all (D-leankv-16)
    include_self: bool | None = None  #: whether a token's attention to itself counts (D-leankv-17)
    normalize: bool | None = None  #: whether significance is shares of 1, not means (D-leankv-18)
    gqa: Literal["max", "mean"] = "max"  #: combines query heads of a KV head (D-leankv-19)
    gqa_order: Literal["sums", "queries"] = "sums"  #: combine after the sums of each head, or before (D-leankv-19)
    order: Literal["kernel", "sequential"] = "kernel"  #: order of the sums over pages (D-leankv-41)
    fma: bool = True  #: fused multiply-add (D-leankv-42)
    softmax_div: Literal["div", "recip_mul"] | None = None  #: division of the softmax (D-leankv-45)
    softmax_eps: float | None = None  #: added to the divisor of the softmax
    partition_tokens: int | None = None  #: tokens of a partition; 0: no partitions (D-leankv-46)
    lazy_pages: bool | None = None  #: whether a page is taken when a token needs it (D-leankv-34)
    reserve_low: int | None = None  #: extra pages for a prompt (D-leankv-35)
    table_extra: int | None = None  #: cells of an entry beyond max_len / table_tokens (D-leankv-36)
    table_tokens: int | None = None  #: tokens per cell of the page table; None: those of a high page
    scrub: bool = False  #: whether unused cells become -1 (D-leankv-40)
    page_bytes: int | None = None  #: bytes of a page; None: by a search (D-leankv-13)
    #: adjacent packs of a key; None, for all four: 4, 4, 2, 8, halved until they fit the head size (D-leankv-12)
    k_vec: int | None = None
    k_group: int | None = None  #: threads that share a key, each with its own packs (D-leankv-12)
    v_vec: int | None = None  #: adjacent tokens in a value pack (D-leankv-12)
    v_group: int | None = None  #: threads that share a value (D-leankv-12)
    align: tuple[int, ...] = kv_layout.ALIGN  #: alignment of parts and of the end, in bytes (D-leankv-14)
    num_pages: int | None = None  #: pages in the pool of one worker; None: enough
    max_len: int | None = None  #: most tokens of a request; None: the model's context
    slots: int = 4  #: concurrent requests of one pool; a session has its own pool
    workers: int = 1  #: workers that divide the KV heads, each with a pool [leankv §6.1]
    quirks: tuple[Quirk, ...] = ()  #: defects of the published code, some of QUIRKS

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in FRACTIONS:
            self._set(name, _fraction(name, getattr(self, name)))
        for name, least in RANGES.items():
            if getattr(self, name) is not None:
                require_int(getattr(self, name), least, 1 << 30, "leankv", name)
        self._set("high", hetero_kv.find(self.high).name)
        self._set("low", None if self.low is None else hetero_kv.find(self.low).name)
        self._set("quirks", tuple(sorted(self.quirks)))
        require_options(self, "leankv")
        if len(self.align) != 2:
            raise Refused(f"leankv: align must be two numbers, in bytes, got {self.align}")
        for size in self.align:
            require_int(size, 1, 1 << 30, "leankv", "align")
        self._require_precisions()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _require_precisions(self) -> None:
        """Reject thresholds out of order, and precisions that do not fit each other or the policy."""
        if self.high == self.low:
            raise Refused(f"leankv: high and low precision must differ, got {self.high} and {self.low}")
        if not 0 <= self.t_low <= 1 or not 0 <= self.t_high <= 1 or (self.low and self.t_low > self.t_high):
            raise Refused(f"leankv: thresholds must be 0 <= t_low <= t_high <= 1, got {self.t_low}, {self.t_high}")
        if not 0 <= self.alpha_prune <= self.alpha_quant:
            raise Refused(f"leankv: need 0 <= alpha_prune <= alpha_quant, got {self.alpha_prune}, {self.alpha_quant}")
        policy = self.of("policy")
        if self.low is None and policy == "diffkv" and self.alpha_prune != self.alpha_quant:
            raise Refused(
                "leankv: policy diffkv without a low precision needs alpha_quant = alpha_prune, got "
                f"{self.alpha_quant} and {self.alpha_prune}"
            )
        if self.low is not None and "static" in (policy, self.of("rule")):
            raise Refused(f"leankv: policy static has one precision, got {self.high} and {self.low}")
        if not 0 <= self.keep_percent <= 100:
            raise Refused(f"leankv: keep_percent must be in [0, 100], got {self.keep_percent}")

    @property
    def calibrated_halves(self) -> tuple[Half, ...]:
        """Halves that depend on a calibration text."""
        return ()

    @property
    def two_phases(self) -> bool:
        """True: a prompt attends to full precision, a step to the pages."""
        return True

    def session_kernel(self) -> Callable[..., object]:
        """The kernel of attention to pages."""
        from refemu.units.leankv.kernels.attention import paged_heads

        kernel: Callable[..., object] = paged_heads
        return kernel

    def of(self, name: str) -> Any:
        """A field, or its value by preset if it is None."""
        value = getattr(self, name)
        if value is None and name == "rule":
            return RULES[self.of("policy")]
        return PRESETS[self.preset].get(name) if value is None else value

    def thresholds(self, rule: str) -> tuple[float, float]:
        """T_l and T_h, or alpha_prune and alpha_quant; without a low precision the first twice."""
        low, high = (
            (self.alpha_prune, self.alpha_quant) if rule in ("per_token", "diffkv") else (self.t_low, self.t_high)
        )
        return low, low if self.low is None else high


def _fraction(name: str, value: Any) -> float | None:
    if value is None and name == "softmax_eps":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Refused(f"leankv: {name} must be a number of at least 0, got {value!r}")
    return float(value)


def single(pair: PairName) -> LeanKvConfig:
    """One precision, nothing pruned."""
    return LeanKvConfig(high=pair, low=None, t_high=0.0, alpha_prune=0.0, alpha_quant=0.0)


SINGLE: tuple[PairName, ...] = ("K8V8", "K8V4", "K8V2", "K4V4", "K4V2", "K4V1", "K4V8", "K2V4", "K16V16")
#: configurations by name; `leankv` also prunes, which needs T_l above 0 (D-leankv-51)
READY = {
    "leankv": LeanKvConfig(t_low=0.0001),
    **{f"leankv-{pair.lower()}": single(pair) for pair in SINGLE},
}
