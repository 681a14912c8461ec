"""The choices of KLLM's arithmetic that the paper leaves open, as one frozen object, and its two presets.

Paper: [kllm §III-B, §III-C, §IV-A]. Decisions: D-kllm-1 (presets), D-kllm-2 (order), D-kllm-3 (fused or not), D-kllm-5
(product codebook), D-kllm-7 (ties), D-kllm-8 (normalizing and distances), D-kllm-20 (sums of norms and softmax).
"""

from typing import Union

from refemu.arith.checks import Refused, RefusedType, lookup, require_choice
from refemu.arith.orders import Exact, Lanes, Order, Sequential, Tree, require_order
from refemu.arith.records import parameters

CHOICES = {
    "normalize": ("divide", "reciprocal", "none"),
    "distance": ("fp16", "real", "midpoint16"),
    "tie": ("low", "high"),
    "table": ("fp16", "fp32"),
    "acc": ("fp16", "fp16_fma", "fp32", "exact"),
    "scale_y": ("fp16", "exact"),
    "stat": ("fp32", "exact", "fp16"),
    "softmax": ("fp16", "softmax32"),
}  #: what each field of KllmArith takes, besides an order

SEQUENTIAL = Sequential()  #: one MAC per entry, in order of the index (D-kllm-2)
LANES = Lanes(32, "blocked", Tree(32))  #: 32 MACs share the entries of a codebook, their results are added as a tree


@parameters
class KllmArith:
    """How KLLM computes; the default is the preset `paper`, every step an fp16 operation. r16 rounds to fp16."""

    normalize: str = "divide"  #: x^ = r16(x / s); "reciprocal": r16(x * r16(1 / s)); "none": x against s * c, exactly
    distance: str = "fp16"  #: r16(|x^ - c|); "real": unrounded; "midpoint16": x^ > r16((c + c') / 2)
    tie: str = "low"  #: of two centroids equally near, the lower one; or the one that is "high"er (D-kllm-7)
    table: str = "fp16"  #: entries of product and square codebooks; "fp32" holds every product exactly
    acc: str = "fp16"  #: accumulator of the reduction, as in `arith.dot`
    order: Order = SEQUENTIAL  #: of the reduction, over ascending indices; or `LANES`
    scale_y: str = "fp16"  #: product of two scales: r16, or "exact"
    stat: str = "fp32"  #: sums of norms; "exact": the exact sum, then float64 per operation; "fp16"
    softmax: str = "fp16"  #: every step in fp16 but the sum, in float32; or "softmax32"

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            require_choice(getattr(self, name), choices, "KllmArith", name)
        require_order(self.order, self.acc, 0, "KllmArith")
        if self.normalize == "none" and self.distance != "real":
            raise Refused(f'KllmArith: normalize="none" needs distance="real", got {self.distance!r}')

    @staticmethod
    def preset(name: Union[str, "KllmArith"]) -> "KllmArith":
        """The choices of preset `paper` or `exact`; a KllmArith passes. Refuses another name (D-kllm-1)."""
        if isinstance(name, KllmArith):
            return name
        if not isinstance(name, str):
            raise RefusedType(f"KllmArith: a preset's name or a KllmArith is needed, got {name!r}")
        return lookup("preset of KLLM", name, PRESETS)


#: `paper`: the literal fp16 datapath; `exact`: wide accumulation, one final rounding, the same fp16 product codebook
PRESETS = {
    "paper": KllmArith(),
    "exact": KllmArith(
        normalize="none",
        distance="real",
        acc="exact",
        order=Exact(),
        scale_y="exact",
        stat="exact",
        softmax="softmax32",
    ),
}
