"""Options of KLLM's arithmetic that the paper leaves open, as one frozen object, and its two presets.

Paper: [kllm §III-B, §III-C, §IV-A]. Decisions: D-kllm-1 (presets), D-kllm-2 (order), D-kllm-3 (fused or not), D-kllm-5
(product codebook), D-kllm-7 (ties), D-kllm-8 (normalizing and distances), D-kllm-20 (sums of norms and softmax).
"""

from typing import Literal, TypeAlias, Union

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.operands import Precision
from refemu.arith.orders import Exact, Lanes, Order, Sequential, Tree, require_order
from refemu.arith.records import parameters, plain_fields, require_options

Normalize: TypeAlias = Literal["divide", "reciprocal", "none"]  #: x / s; x * r16(1 / s); x against s * c, exactly
Distance: TypeAlias = Literal["fp16", "real", "midpoint16"]  #: r16(|x^ - c|); unrounded; x^ against r16((c + c') / 2)
Tie: TypeAlias = Literal["low", "high"]  #: which of two centroids equally near
Reduction: TypeAlias = Literal["fp16", "fp16_fma", "fp32", "exact"]  #: an accumulator of `arith.dot`
ScaleProduct: TypeAlias = Literal["fp16", "exact"]  #: product of two scales
Statistic: TypeAlias = Literal["fp32", "exact", "fp16"]  #: sums of norms
Softmax: TypeAlias = Literal["fp16", "softmax32"]  #: every step in fp16 but the sum, or all in float32
Preset: TypeAlias = Literal["paper", "exact"]  #: the literal fp16 datapath, or wide accumulation

SEQUENTIAL = Sequential()  #: one MAC per entry, in order of the index (D-kllm-2)
LANES = Lanes(32, "blocked", Tree(32))  #: 32 MACs share the entries of a codebook, their results are added as a tree


@parameters
class KllmArith:
    """Options of KLLM's arithmetic; r16 rounds to fp16. The default is the preset `paper`, every step in fp16.

    References
    ----------
    [kllm §III-B, §III-C, §IV-A]
    """

    normalize: Normalize = "divide"  #: x^ = r16(x / s); "reciprocal": r16(x * r16(1 / s)); "none": x against s * c
    distance: Distance = "fp16"  #: r16(|x^ - c|); "real": unrounded; "midpoint16": x^ > r16((c + c') / 2)
    tie: Tie = "low"  #: of two centroids equally near, the lower one; or the one that is "high"er (D-kllm-7)
    table: Precision = "fp16"  #: entries of product and square codebooks; "fp32" holds every product exactly
    acc: Reduction = "fp16"  #: accumulator of the reduction, as in `arith.dot`
    order: Order = SEQUENTIAL  #: of the reduction, over ascending indices; or `LANES`
    scale_y: ScaleProduct = "fp16"  #: product of two scales: r16, or "exact"
    stat: Statistic = "fp32"  #: sums of norms; "exact": the exact sum, then float64 per operation; "fp16"
    softmax: Softmax = "fp16"  #: every step in fp16 but the sum, in float32; or "softmax32"

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "KllmArith")
        require_order(self.order, self.acc, 0, "KllmArith")
        if self.normalize == "none" and self.distance != "real":
            raise Refused(f'KllmArith: normalize="none" needs distance="real", got {self.distance!r}')

    @staticmethod
    def preset(name: Union[Preset, "KllmArith"]) -> "KllmArith":
        """Resolve a preset (D-kllm-1).

        Parameters
        ----------
        name : str or KllmArith
            "paper", "exact", or options, which pass.

        Returns
        -------
        KllmArith
            Options.

        Raises
        ------
        Refused
            An unknown name.
        RefusedType
            Neither a name nor options.
        """
        if isinstance(name, KllmArith):
            return name
        if not isinstance(name, str):
            raise RefusedType(f"KllmArith: a preset's name or a KllmArith is needed, got {name!r}")
        return lookup("preset of KLLM", name, PRESETS)


#: `paper`: the literal fp16 datapath; `exact`: wide accumulation, one final rounding, the same fp16 product codebook
PRESETS: dict[str, KllmArith] = {
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
