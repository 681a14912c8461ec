"""Block types of GGUF files, a block at a time in Python integers and floats, by ggml's definitions.

A value is exact in float64 and rounded once to float32 by the reader. Grids of the IQ types are tables of small values
that the caller brings: rows of 8 or 4.
"""

import struct
from collections.abc import Callable, Sequence

Grid = Sequence[Sequence[float]]
NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  #: of IQ4_NL and IQ4_XS
E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)  #: doubled


def half(raw: bytes, at: int) -> float:
    """The float16 at a byte."""
    return float(struct.unpack_from("<e", raw, at)[0])


def word(raw: bytes, at: int, size: int) -> int:
    """Unsigned, little endian."""
    return int.from_bytes(raw[at : at + size], "little")


def nibbles(raw: bytes) -> list[int]:
    """All low nibbles, then all high ones."""
    return [byte & 15 for byte in raw] + [byte >> 4 for byte in raw]


def signs(index: int) -> list[int]:
    """Seven stored signs and an eighth that makes their number even."""
    bits = [index >> bit & 1 for bit in range(7)]
    return [-1 if bit else 1 for bit in (*bits, sum(bits) % 2)]


def signed(byte: int) -> list[int]:
    """Eight stored signs."""
    return [-1 if byte >> bit & 1 else 1 for bit in range(8)]


def q4_0(b: bytes) -> list[float]:
    return [half(b, 0) * (q - 8) for q in nibbles(b[2:])]


def q4_1(b: bytes) -> list[float]:
    return [half(b, 0) * q + half(b, 2) for q in nibbles(b[4:])]


def q5_0(b: bytes) -> list[float]:
    high = word(b, 2, 4)
    return [half(b, 0) * ((q | (high >> i & 1) << 4) - 16) for i, q in enumerate(nibbles(b[6:]))]


def q5_1(b: bytes) -> list[float]:
    high = word(b, 4, 4)
    return [half(b, 0) * (q | (high >> i & 1) << 4) + half(b, 2) for i, q in enumerate(nibbles(b[8:]))]


def q8_0(b: bytes) -> list[float]:
    return [half(b, 0) * q for q in struct.unpack_from("<32b", b, 2)]


def pairs_of_bits(b: bytes, at: int) -> list[int]:
    """256 two-bit codes in 64 bytes: 128 values are the four pairs of 32 bytes, lowest pair first."""
    return [b[at + 32 * (i // 128) + i % 32] >> 2 * (i // 32 % 4) & 3 for i in range(256)]


def q2_k(b: bytes) -> list[float]:
    d, least = half(b, 80), half(b, 82)
    return [d * (b[i // 16] & 15) * q - least * (b[i // 16] >> 4) for i, q in enumerate(pairs_of_bits(b, 16))]


def q3_k(b: bytes) -> list[float]:
    scales = [(b[96 + i % 8] >> 4 * (i // 8) & 15) | (b[104 + i % 4] >> 2 * (i // 4) & 3) << 4 for i in range(16)]
    high = [b[i % 32] >> i // 32 & 1 for i in range(256)]
    codes = pairs_of_bits(b, 32)
    return [half(b, 108) * (scales[i // 16] - 32) * (codes[i] - 4 * (1 - high[i])) for i in range(256)]


def scale_and_least(b: bytes, at: int, i: int) -> tuple[int, int]:
    """Six bits each of eight scales and minima in 12 bytes."""
    q = b[at : at + 12]
    if i < 4:
        return q[i] & 63, q[i + 4] & 63
    return (q[i + 4] & 15) | q[i - 4] >> 6 << 4, q[i + 4] >> 4 | q[i] >> 6 << 4


def q4_k(b: bytes) -> list[float]:
    return fives(b, [0] * 256, 16)


def q5_k(b: bytes) -> list[float]:
    return fives(b, [b[16 + i % 32] >> i // 32 & 1 for i in range(256)], 48)


def fives(b: bytes, high: list[int], at: int) -> list[float]:
    """64 values are the low and then the high nibbles of 32 bytes; a scale and a minimum for each 32."""
    out = []
    for i in range(256):
        scale, least = scale_and_least(b, 4, i // 32)
        q = (b[at + 32 * (i // 64) + i % 32] >> 4 * (i // 32 % 2) & 15) | high[i] << 4
        out.append(half(b, 0) * scale * q - half(b, 2) * least)
    return out


def q6_k(b: bytes) -> list[float]:
    scales, out = struct.unpack_from("<16b", b, 192), []
    for i in range(256):
        part, quarter, at = i // 128, i // 32 % 4, i % 32
        low = b[64 * part + 32 * (quarter % 2) + at] >> 4 * (quarter // 2) & 15
        high = b[128 + 32 * part + at] >> 2 * quarter & 3
        out.append(half(b, 208) * scales[i // 16] * ((low | high << 4) - 32))
    return out


def tq1_0(b: bytes) -> list[float]:
    """Five digits of base 3 in a byte, as a fraction of 256; the most significant first."""
    out = []
    for first, count, digits in ((0, 32, 5), (32, 16, 5), (48, 4, 4)):
        for digit in range(digits):
            out += [half(b, 52) * ((b[first + i] * 3**digit % 256 * 3 >> 8) - 1) for i in range(count)]
    return out


def tq2_0(b: bytes) -> list[float]:
    return [half(b, 64) * (q - 1) for q in pairs_of_bits(b, 0)]


def mxfp4(b: bytes) -> list[float]:
    return [2.0 ** (b[0] - 128) * E2M1[q] for q in nibbles(b[1:])]


def nvfp4(b: bytes) -> list[float]:
    """Four scales of E4M3 without sign, then 16 values for each."""
    out = []
    for group in range(4):
        exponent, mantissa = b[group] >> 3, b[group] & 7
        scale = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        out += [scale / 2 * E2M1[q] for q in nibbles(b[4 + 8 * group : 12 + 8 * group])]
    return out


def iq4_nl(b: bytes) -> list[float]:
    return [half(b, 0) * NL[q] for q in nibbles(b[2:])]


def iq4_xs(b: bytes) -> list[float]:
    out = []
    for i in range(8):
        scale = (b[4 + i // 2] >> 4 * (i % 2) & 15) | (word(b, 2, 2) >> 2 * i & 3) << 4
        out += [half(b, 0) * (scale - 32) * NL[q] for q in nibbles(b[8 + 16 * i : 24 + 16 * i])]
    return out


def iq2_xxs(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(8):
        rest = word(b, 6 + 8 * i, 4)
        scale = half(b, 0) * (0.5 + (rest >> 28)) / 4
        for part in range(4):
            row, sign = grid[b[2 + 8 * i + part]], signs(rest >> 7 * part & 127)
            out += [scale * x * s for x, s in zip(row, sign, strict=True)]
    return out


def iq2_xs(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(32):
        code = word(b, 2 + 2 * i, 2)
        scale = half(b, 0) * (0.5 + (b[66 + i // 4] >> 4 * (i // 2 % 2) & 15)) / 4
        out += [scale * x * s for x, s in zip(grid[code & 511], signs(code >> 9), strict=True)]
    return out


def iq2_s(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(32):
        code = b[2 + i] | (b[66 + i // 4] >> 2 * (i % 4) & 3) << 8
        scale = half(b, 0) * (0.5 + (b[74 + i // 4] >> 4 * (i // 2 % 2) & 15)) / 4
        out += [scale * x * s for x, s in zip(grid[code], signed(b[34 + i]), strict=True)]
    return out


def iq3_xxs(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(8):
        rest = word(b, 66 + 4 * i, 4)
        scale = half(b, 0) * (0.5 + (rest >> 28)) / 2
        for part in range(4):
            at = 2 + 8 * i + 2 * part
            row, sign = [*grid[b[at]], *grid[b[at + 1]]], signs(rest >> 7 * part & 127)
            out += [scale * x * s for x, s in zip(row, sign, strict=True)]
    return out


def iq3_s(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(32):
        scale = half(b, 0) * (1 + 2 * (b[106 + i // 8] >> 4 * (i // 4 % 2) & 15))
        codes = [b[2 + 2 * i + n] | (b[66 + i // 4] >> (2 * (i % 4) + n) & 1) << 8 for n in range(2)]
        row = [*grid[codes[0]], *grid[codes[1]]]
        out += [scale * x * s for x, s in zip(row, signed(b[74 + i]), strict=True)]
    return out


def iq1_s(b: bytes, grid: Grid) -> list[float]:
    out = []
    for i in range(32):
        high = word(b, 34 + 2 * (i // 4), 2)
        scale, shift = half(b, 0) * (2 * (high >> 12 & 7) + 1), -0.125 if high >> 15 else 0.125
        out += [scale * (x + shift) for x in grid[b[2 + i] | (high >> 3 * (i % 4) & 7) << 8]]
    return out


def iq1_m(b: bytes, grid: Grid) -> list[float]:
    scales = [word(b, 48 + 2 * i, 2) for i in range(4)]
    d = half(sum((scale >> 12) << 4 * i for i, scale in enumerate(scales)).to_bytes(2, "little"), 0)
    out = []
    for i in range(32):
        high = b[32 + i // 2] >> 4 * (i % 2) & 15
        scale = d * (2 * (scales[i // 8] >> 3 * (i // 2 % 4) & 7) + 1)
        out += [scale * (x + (-0.125 if high >> 3 else 0.125)) for x in grid[b[i] | (high & 7) << 8]]
    return out


Plain = Callable[[bytes], list[float]]
Gridded = Callable[[bytes, Grid], list[float]]
PLAIN: dict[str, Plain] = {
    function.__name__.upper(): function for function in (q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k)
} | {function.__name__.upper(): function for function in (tq1_0, tq2_0, mxfp4, nvfp4, iq4_nl, iq4_xs)}
GRIDDED: dict[str, Gridded] = {
    function.__name__.upper(): function for function in (iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1_s, iq1_m)
}
#: bytes of a block, and offsets of its float16 values
SIZES: dict[str, tuple[int, tuple[int, ...]]] = {
    "Q4_0": (18, (0,)),
    "Q4_1": (20, (0, 2)),
    "Q5_0": (22, (0,)),
    "Q5_1": (24, (0, 2)),
    "Q8_0": (34, (0,)),
    "Q2_K": (84, (80, 82)),
    "Q3_K": (110, (108,)),
    "Q4_K": (144, (0, 2)),
    "Q5_K": (176, (0, 2)),
    "Q6_K": (210, (208,)),
    "TQ1_0": (54, (52,)),
    "TQ2_0": (66, (64,)),
    "MXFP4": (17, ()),
    "NVFP4": (36, ()),
    "IQ4_NL": (18, (0,)),
    "IQ4_XS": (136, (0,)),
    "IQ2_XXS": (66, (0,)),
    "IQ2_XS": (74, (0,)),
    "IQ2_S": (82, (0,)),
    "IQ3_XXS": (98, (0,)),
    "IQ3_S": (110, (0,)),
    "IQ1_S": (50, (0,)),
    "IQ1_M": (56, ()),
}
