"""Precision pairs of a KV cache: keys and values of one token at widths of their own.

Paper: [leankv §4, §7.2]. Decisions: D-leankv-10 (groups per vector), D-leankv-15 (types of score and position),
D-leankv-55 (what a ratio counts).
"""

import functools
from typing import Any, ClassVar, Literal, TypeAlias

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.leankv.affine import META_BITS, Affine, Metadata, Preset

SCORE_BYTES = POSITION_BYTES = 4  #: of a token: fp32 and int32 (D-leankv-15)

#: a ready pair by name: bits of a key, bits of a value, groups of each where there is more than one
PairName: TypeAlias = Literal[
    "K8V8", "K8V4", "K8V2", "K4V4", "K4V2", "K4V1", "K4V8", "K2V4", "K16V16", "K8V4_G12", "K4V2_G24"
]


@parameters
class HeteroKV:
    """Widths and groups of the stored keys and values; `K8V4` has keys of 8 bits and values of 4.

    References
    ----------
    [leankv §4, §7.2]
    """

    k_bits: int  #: of a key code, as `Affine.bits`
    v_bits: int  #: of a value code
    k_groups: int = 1  #: groups with metadata of their own in a key; 0 at 16 bits (D-leankv-10)
    v_groups: int = 1  #: in a value
    meta: Metadata = "fp16"  #: type of the stored scales and zero points

    K8V8: ClassVar["HeteroKV"]
    K8V4: ClassVar["HeteroKV"]
    K8V2: ClassVar["HeteroKV"]
    K4V4: ClassVar["HeteroKV"]
    K4V2: ClassVar["HeteroKV"]
    K4V1: ClassVar["HeteroKV"]
    K4V8: ClassVar["HeteroKV"]
    K2V4: ClassVar["HeteroKV"]
    K16V16: ClassVar["HeteroKV"]
    K8V4_G12: ClassVar["HeteroKV"]
    K4V2_G24: ClassVar["HeteroKV"]

    def __post_init__(self) -> None:
        plain_fields(self)
        require_options(self, "HeteroKV")
        key, value = Affine(self.k_bits, self.k_groups), Affine(self.v_bits, self.v_groups)
        object.__setattr__(self, "k_groups", key.groups)
        object.__setattr__(self, "v_groups", value.groups)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The repr, for printers as of IPython. hypothesis's takes class variables for fields, and the ready pairs,
        each of which has all, would keep it busy for minutes."""
        printer.text(repr(self))

    @property
    def name(self) -> str:
        """`K8V4`; with other groups than one per vector `K8V4_G12`."""
        plain = tuple(int(bits < 16) for bits in (self.k_bits, self.v_bits)) == (self.k_groups, self.v_groups)
        return f"K{self.k_bits}V{self.v_bits}" + ("" if plain else f"_G{self.k_groups}{self.v_groups}")

    def key(self, preset: Preset = "paper") -> Affine:
        """Format of a key.

        Parameters
        ----------
        preset : {"paper", "diffkv"}
            Preset of the codes.

        Returns
        -------
        Affine
            Format.
        """
        return _format(self.k_bits, self.k_groups, self.meta, preset)

    def value(self, preset: Preset = "paper") -> Affine:
        """Format of a value.

        Parameters
        ----------
        preset : {"paper", "diffkv"}
            Preset of the codes.

        Returns
        -------
        Affine
            Format.
        """
        return _format(self.v_bits, self.v_groups, self.meta, preset)

    def payload_bytes(self, head_size: int) -> int:
        """Bytes of the codes of one token, as the paper's ratios count (D-leankv-55).

        Parameters
        ----------
        head_size : int
            Features of a key and of a value.

        Returns
        -------
        int
            Bytes.

        Raises
        ------
        Refused
            The codes fill no whole bytes.
        """
        bits = head_size * (self.k_bits + self.v_bits)
        if bits % 8:
            raise Refused(f"{self.name}: head size {head_size} gives {bits} bits of codes, no whole bytes")
        return bits // 8

    def token_bytes(self, head_size: int) -> int:
        """Bytes of one token: codes, scales and zero points, score, position.

        Parameters
        ----------
        head_size : int
            Features of a key and of a value.

        Returns
        -------
        int
            Bytes.
        """
        metadata = 2 * META_BITS[self.meta] // 8 * (self.k_groups + self.v_groups)
        return self.payload_bytes(head_size) + metadata + SCORE_BYTES + POSITION_BYTES

    def payload_ratio(self, head_size: int) -> tuple[int, int]:
        """Ratio of the codes to fp16 keys and values.

        Parameters
        ----------
        head_size : int
            Features of a key and of a value.

        Returns
        -------
        numerator, denominator : int
            Bytes.
        """
        return self.payload_bytes(head_size), 4 * head_size


@functools.lru_cache(maxsize=256)
def _format(bits: int, groups: int, meta: Metadata, preset: Preset) -> Affine:
    """Cached: a block asks with every token, and a format checks its fields."""
    base = Affine.preset(preset, bits, groups)
    return Affine(bits, groups, base.zero, base.quant_div, base.quantize_with, meta)


HeteroKV.K8V8 = K8V8 = HeteroKV(8, 8)  #: Keys and values of 8 bits [leankv §7.2]
HeteroKV.K8V4 = K8V4 = HeteroKV(8, 4)  #: The high precision [leankv §4]
HeteroKV.K8V2 = K8V2 = HeteroKV(8, 2)  #: Keys of 8 bits, values of 2
HeteroKV.K4V4 = K4V4 = HeteroKV(4, 4)  #: Keys and values of 4 bits
HeteroKV.K4V2 = K4V2 = HeteroKV(4, 2)  #: The low precision [leankv §4]
HeteroKV.K4V1 = K4V1 = HeteroKV(4, 1)  #: Keys of 4 bits, values of 1 [leankv §7.2]
HeteroKV.K4V8 = K4V8 = HeteroKV(4, 8)  #: Mirror of K8V4, for [leankv Fig. 7]
HeteroKV.K2V4 = K2V4 = HeteroKV(2, 4)  #: Mirror of K4V2, for [leankv Fig. 7]
HeteroKV.K16V16 = K16V16 = HeteroKV(16, 16)  #: fp16 without metadata
HeteroKV.K8V4_G12 = K8V4_G12 = HeteroKV(8, 4, 1, 2)  #: K8V4 with two groups per value
HeteroKV.K4V2_G24 = K4V2_G24 = HeteroKV(4, 2, 2, 4)  #: K4V2 with two groups per key and four per value

PAIRS: dict[str, HeteroKV] = {
    pair.name: pair for pair in (K8V8, K8V4, K8V2, K4V4, K4V2, K4V1, K4V8, K2V4, K16V16, K8V4_G12, K4V2_G24)
}


def find(config: "HeteroKV | str") -> HeteroKV:
    """`config` itself, or the ready pair of that name in any case; rejects another with the nearest known one."""
    if isinstance(config, HeteroKV):
        return config
    if not isinstance(config, str):
        raise RefusedType(f"HeteroKV: a precision pair or its name is needed, got {config!r}")
    return lookup("precision pair", config.upper().replace("-", "_"), PAIRS)
