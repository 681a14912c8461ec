"""LeanKV's quantizer and page on Python floats, integers and bytes [leankv §2.2, §5.2, §6.2].

Values are Python floats that hold FP16 or float32 numbers; stored metadata are FP16 words (ints).

    encode_group(x, bits, ...)   -> Affine;  decode_group(affine, ...)
    encode(x, bits, groups, ...) a vector;   decode(groups, ...);  requantize(groups, bits, groups, ...)
    words(codes, bits)           16-bit words of a vector
    Config, CONFIGS, raw_bytes, offsets, tokens, page_bytes
    key_word, value_word         where a pack of a token is, for what `has_layout`
    Page                         the bytes of one page: write, read
"""

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import bits as stream
from tests.oracles import fp16
from tests.oracles.fp16 import f32


class Affine(NamedTuple):
    """One group: codes, FP16 words, and what the hardware sees on the way (float32 values as floats)."""

    code: list[int]
    scale: int
    zero: int
    bits: int
    status: int = 0  #: 1 scale underflow, 2 scale overflow, 4 zero overflow, 8 constant
    minimum: float = 0.0
    maximum: float = 0.0
    s32: float = 0.0
    inv32: float = 0.0


def divide(a: float, b: float) -> float:
    """a / b of float32 values, rounded to float32, as IEEE has it."""
    if b == 0 and not math.isnan(a):
        return math.nan if a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)
    return f32(a / b)


def encode_group(
    x: Sequence[float], bits: int, zero: str = "neg_min", quant_div: str = "div", quantize_with: str = "unrounded"
) -> Affine:
    """[leankv Eq. 2] on float32 values; 16 bits keeps FP16 words as they are.

    paper: zero "neg_min" stores -min (+0 for a zero), quant_div "div". diffkv: "min" stores the minimum, of zeros the
    last one, and quant_div "recip_mul". `quantize_with` "stored" uses the metadata after their rounding.
    """
    if bits == 16:
        return Affine([fp16.from_float(v) for v in x], 0, 0, 16)
    low, high, top = min(x), max(x), 2**bits - 1
    if low == 0:
        low = [v for v in x if v == 0][-1] if zero == "min" else -0.0
    s = f32(f32(high - low) / top) if high != low else 0.0
    scale = fp16.from_float(s)
    stored_zero = fp16.from_float(-low if zero == "neg_min" else low)
    used_s, used_low = s, low
    if quantize_with == "stored":
        used_s = fp16.to_float(scale)
        used_low = -fp16.to_float(stored_zero) if zero == "neg_min" else fp16.to_float(stored_zero)
    codes = [quantize(f32(v - used_low), used_s, quant_div, top) for v in x]
    status = 8 if high == low else (scale == 0) + 2 * (scale == fp16.INF)
    status += 4 * (stored_zero & 0x7FFF == fp16.INF)
    return Affine(codes, scale, stored_zero, bits, status, low, high, s, divide(1.0, s))


def quantize(distance: float, s: float, quant_div: str, top: int) -> int:
    """One code; NaN is 0, anything else is clamped."""
    t = divide(distance, s) if quant_div == "div" else f32(distance * divide(1.0, s))
    if math.isnan(t):
        return 0
    return 0 if t <= 0 else top if t >= top else round(t)


def decode_group(group: Affine, zero: str = "neg_min") -> list[float]:
    """Float32 values; the product is exact."""
    if group.bits == 16:
        return [fp16.to_float(code) for code in group.code]
    s, z = fp16.to_float(group.scale), fp16.to_float(group.zero)
    return [f32(s * q - z) if zero == "neg_min" else f32(q * s + z) for q in group.code]


def encode(x: Sequence[float], bits: int, groups: int = 1, **options: str) -> list[Affine]:
    """A vector as contiguous groups."""
    size = len(x) // max(groups, 1)
    return [encode_group(x[i : i + size], bits, **options) for i in range(0, len(x), size)]


def decode(groups: Sequence[Affine], zero: str = "neg_min") -> list[float]:
    """The vector again."""
    return [value for group in groups for value in decode_group(group, zero)]


def requantize(vector: Sequence[Affine], bits: int, groups: int = 1, **options: str) -> list[Affine]:
    """Decoded with the stored metadata, encoded afresh."""
    return encode(decode(vector, options.get("zero", "neg_min")), bits, groups, **options)


def words(codes: Sequence[int], bits: int) -> list[int]:
    """16-bit words; the first feature in the lowest bits."""
    data = stream.pack(codes, bits)
    return [data[i] + 256 * data[i + 1] for i in range(0, len(data), 2)]


# Pages.


class Config(NamedTuple):
    """Bits of keys and values, and their groups per vector (no metadata at 16 bits)."""

    k_bits: int
    v_bits: int
    k_groups: int = 1
    v_groups: int = 1


NAMES = "K8V8 K8V4 K8V2 K4V4 K4V2 K4V1 K4V8 K2V4"
CONFIGS = {name: Config(int(name[1]), int(name[3])) for name in NAMES.split()}
CONFIGS |= {"K8V4_G12": Config(8, 4, 1, 2), "K4V2_G24": Config(4, 2, 2, 4), "K16V16": Config(16, 16, 0, 0)}
SEARCHED = [CONFIGS[name] for name in ("K8V4_G12", "K8V4", "K4V2_G24", "K4V2")]


class Layout(NamedTuple):
    """Constants of the segments of keys and values, in packs and tokens."""

    k_vec: int = 4
    k_group: int = 4
    v_vec: int = 2
    v_group: int = 8


PLAIN = Layout()


def up(a: int, b: int) -> int:
    """`a` rounded up to a multiple of `b`."""
    return a + -a % b


def raw_bytes(f: int, c: Config) -> int:
    """Bytes of one token: codes, metadata, score and position."""
    return f * c.k_bits // 8 + f * c.v_bits // 8 + 4 * c.k_groups + 4 * c.v_groups + 8


def offsets(f: int, c: Config, n: int) -> dict[str, int]:
    """Where the segments of a page for n tokens begin, its end, and the bytes it needs."""
    key_meta = up(n * f * c.k_bits // 8, 32)
    val = up(key_meta + 4 * n * c.k_groups, 128)
    val_meta = val + up(up(n, 2) * f * c.v_bits // 8, 32)
    score = val_meta + up(4 * n * c.v_groups, 32)
    pos = score + 4 * n
    return {
        "key": 0,
        "key_meta": key_meta,
        "val": val,
        "val_meta": val_meta,
        "score": score,
        "pos": pos,
        "end": pos + 4 * n,
        "needed": up(score + up(8 * n, 32), 128),
    }


def tokens(f: int, c: Config, page: int) -> int:
    """The most tokens that fit a page."""
    return max(n for n in range(page // raw_bytes(f, c) + 1) if offsets(f, c, n)["needed"] <= page)


def page_bytes(f: int) -> int:
    """The smallest page with the least worst waste."""
    waste = {
        page: max(1 - Fraction(tokens(f, c, page) * raw_bytes(f, c), page) for c in SEARCHED)
        for page in range(800, 8001, 32)
    }
    return min(waste, key=lambda page: (waste[page], page))


def has_layout(f: int, c: Config, layout: Layout = PLAIN) -> bool:
    """Whether packs, groups and layout constants divide each other."""
    fits = f * c.k_bits % (16 * layout.k_vec * layout.k_group) == 0 and f * c.v_bits % (16 * layout.v_group) == 0
    return fits and layout.k_group % max(c.k_groups, 1) == 0 and layout.v_group % max(c.v_groups, 1) == 0


def key_word(pack: int, token: int, packs: int, n: int, layout: Layout = PLAIN) -> int:
    """Word of a key's pack in the array [vector][token][member][pack of the vector], a member's features contiguous."""
    vectors = packs // (layout.k_vec * layout.k_group)
    member, rest = divmod(pack, vectors * layout.k_vec)
    vector, place = divmod(rest, layout.k_vec)
    return ((vector * n + token) * layout.k_group + member) * layout.k_vec + place


def value_word(pack: int, token: int, packs: int, n: int, layout: Layout = PLAIN) -> int:
    """Word of a value's pack in the array [pack of the member][token // Vvec][member][token % Vvec]."""
    member, place = divmod(pack, packs // layout.v_group)
    rows = -(-n // layout.v_vec)
    return ((place * rows + token // layout.v_vec) * layout.v_group + member) * layout.v_vec + token % layout.v_vec


class Page:
    """The bytes of one page for head size `f`; unused bytes stay what they were."""

    def __init__(self, f: int, config: Config, size: int, n: int, layout: Layout = PLAIN) -> None:
        self.f, self.config, self.n, self.layout = f, config, n, layout
        self.data = bytearray(size)
        self.at = offsets(f, config, n)

    def put(self, base: int, word: int, value: int) -> None:
        """One 16-bit word of a segment."""
        self.data[base + 2 * word : base + 2 * word + 2] = value.to_bytes(2, "little")

    def get(self, base: int, word: int) -> int:
        """One 16-bit word of a segment."""
        return int.from_bytes(self.data[base + 2 * word : base + 2 * word + 2], "little")

    def write(
        self, slot: int, key: Sequence[Affine], value: Sequence[Affine], score: float = 0.0, position: int = 0
    ) -> None:
        """A token: its key and value vectors as groups."""
        for name, vector, place in (("key", key, key_word), ("val", value, value_word)):
            packed = words([code for group in vector for code in group.code], vector[0].bits)
            for i, word in enumerate(packed):
                self.put(self.at[name], place(i, slot, len(packed), self.n, self.layout), word)
            if vector[0].bits == 16:
                continue
            for g, group in enumerate(vector):
                self.put(self.at[name + "_meta"], 2 * (slot * len(vector) + g), group.scale)
                self.put(self.at[name + "_meta"], 2 * (slot * len(vector) + g) + 1, group.zero)
        self.data[self.at["score"] + 4 * slot : self.at["score"] + 4 * slot + 4] = struct.pack("<f", score)
        self.data[self.at["pos"] + 4 * slot : self.at["pos"] + 4 * slot + 4] = struct.pack("<i", position)

    def read(self, slot: int) -> tuple[list[Affine], list[Affine], float, int]:
        """What `write` put there (without the intermediate values)."""
        c = self.config
        key = self.vector("key", slot, c.k_bits, c.k_groups)
        value = self.vector("val", slot, c.v_bits, c.v_groups)
        score = struct.unpack_from("<f", self.data, self.at["score"] + 4 * slot)[0]
        return key, value, score, struct.unpack_from("<i", self.data, self.at["pos"] + 4 * slot)[0]

    def vector(self, name: str, slot: int, bits: int, groups: int) -> list[Affine]:
        """One vector of a slot."""
        place = key_word if name == "key" else value_word
        packs = self.f * bits // 16
        packed = [self.get(self.at[name], place(i, slot, packs, self.n, self.layout)) for i in range(packs)]
        codes = [word >> shift & ((1 << bits) - 1) for word in packed for shift in range(0, 16, bits)]
        if bits == 16:
            return [Affine(codes, 0, 0, 16)]
        meta = [self.get(self.at[name + "_meta"], 2 * slot * groups + i) for i in range(2 * groups)]
        size = self.f // groups
        return [Affine(codes[g * size : (g + 1) * size], meta[2 * g], meta[2 * g + 1], bits) for g in range(groups)]
