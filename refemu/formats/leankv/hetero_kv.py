"""Precision pairs of a KV cache: keys and values of one token at widths of their own.

Paper: [leankv §4, §7.2]. Decisions: D-leankv-10 (groups per vector), D-leankv-15 (types of score and position),
D-leankv-55 (what a ratio counts).
"""

from refemu.arith.checks import Refused, RefusedType, lookup, require_choice
from refemu.arith.records import parameters
from refemu.formats.affine import META_BITS, Affine

SCORE_BYTES = POSITION_BYTES = 4  #: of a token: fp32 and int32 (D-leankv-15)


@parameters
class HeteroKV:
    """Widths and groups of the stored keys and values; `K8V4` has keys of 8 bits and values of 4."""

    k_bits: int  #: of a key code, as `Affine.bits`
    v_bits: int  #: of a value code
    k_groups: int = 1  #: groups with metadata of their own in a key; 0 at 16 bits (D-leankv-10)
    v_groups: int = 1  #: in a value
    meta: str = "fp16"  #: type of the stored scales and zero points

    def __post_init__(self) -> None:
        require_choice(self.meta, META_BITS, "HeteroKV", "meta")
        key, value = Affine(self.k_bits, self.k_groups), Affine(self.v_bits, self.v_groups)
        object.__setattr__(self, "k_groups", key.groups)
        object.__setattr__(self, "v_groups", value.groups)

    @property
    def name(self) -> str:
        """`K8V4`; with other groups than one per vector `K8V4_G12`."""
        plain = tuple(int(bits < 16) for bits in (self.k_bits, self.v_bits)) == (self.k_groups, self.v_groups)
        return f"K{self.k_bits}V{self.v_bits}" + ("" if plain else f"_G{self.k_groups}{self.v_groups}")

    def key(self, preset: str = "paper") -> Affine:
        """The format of a key under `preset`, one of `affine.PRESETS`."""
        return self._format(self.k_bits, self.k_groups, preset)

    def value(self, preset: str = "paper") -> Affine:
        """The format of a value under `preset`."""
        return self._format(self.v_bits, self.v_groups, preset)

    def _format(self, bits: int, groups: int, preset: str) -> Affine:
        base = Affine.preset(preset, bits, groups)
        return Affine(bits, groups, base.zero, base.quant_div, base.quantize_with, self.meta)

    def payload_bytes(self, head_size: int) -> int:
        """Bytes of the codes of one token: what the paper's ratios count (D-leankv-55)."""
        bits = head_size * (self.k_bits + self.v_bits)
        if bits % 8:
            raise Refused(f"{self.name}: head size {head_size} gives {bits} bits of codes, no whole bytes")
        return bits // 8

    def token_bytes(self, head_size: int) -> int:
        """Bytes of one token: codes, scales and zero points, score, position."""
        metadata = 2 * META_BITS[self.meta] // 8 * (self.k_groups + self.v_groups)
        return self.payload_bytes(head_size) + metadata + SCORE_BYTES + POSITION_BYTES

    def payload_ratio(self, head_size: int) -> tuple[int, int]:
        """`payload_bytes` as numerator, the bytes of fp16 keys and values as denominator."""
        return self.payload_bytes(head_size), 4 * head_size


K8V8 = HeteroKV(8, 8)  #: [leankv §7.2]
K8V4 = HeteroKV(8, 4)  #: [leankv §4]: the high precision
K8V2 = HeteroKV(8, 2)
K4V4 = HeteroKV(4, 4)
K4V2 = HeteroKV(4, 2)  #: [leankv §4]: the low precision
K4V1 = HeteroKV(4, 1)  #: [leankv §7.2]
K4V8 = HeteroKV(4, 8)  #: the mirrors, for [leankv Fig. 7]
K2V4 = HeteroKV(2, 4)
K16V16 = HeteroKV(16, 16)  #: fp16 without metadata
K8V4_G12 = HeteroKV(8, 4, 1, 2)  #: with two groups per value
K4V2_G24 = HeteroKV(4, 2, 2, 4)

PAIRS = {pair.name: pair for pair in (K8V8, K8V4, K8V2, K4V4, K4V2, K4V1, K4V8, K2V4, K16V16, K8V4_G12, K4V2_G24)}
for _name, _pair in PAIRS.items():
    setattr(HeteroKV, _name, _pair)  # the constants also as `HeteroKV.K8V4`


def find(config: "HeteroKV | str") -> HeteroKV:
    """`config` itself, or the ready pair of that name in any case; refused with the nearest known one."""
    if isinstance(config, HeteroKV):
        return config
    if not isinstance(config, str):
        raise RefusedType(f"HeteroKV: a precision pair or its name is needed, got {config!r}")
    return lookup("precision pair", config.upper().replace("-", "_"), PAIRS)
