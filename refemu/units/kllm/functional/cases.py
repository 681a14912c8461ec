"""Golden cases of functional: ends of the range, ties of a row, masked logits, random words. [kllm §IV-A]"""

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Blocks, Seeds, port_values, repeated

ONE, INF, MINUS = 0x3C00, 0x7C00, 0x8000

#: logits with a float32 quotient next to a midpoint of fp16, so that a sum in another order shows
CLOSE = (
    "9457 a58e 143e af8c 02a5 bbf8 bdbe 0c86 8f81 a288 2aa5 0f06 b211 abe8 b631 2edd 2d61 c159 2d74 2117",
    "813b 8291 805b 2e8b 3476 4085 22b9 8989 0261 3c0e 02df 23e4 200a abdf 28a8 29ce a84f ab59 ac0b 350a",
    "070e 92a8 0f47 068b 9da3 0f42 ba40 0361 177a b58a 1174 80c3 c370 b0f3 c048 301d 42e6 987c 9b39 a4ec",
    "a5ed 16a0 9642 2467 8700 b673 9bf3 8ce4 4144 3318 03be b7ee 8f4a 2313 a24c a83f 2043 17fa 1990 1bc2",
    "ae17 a887 943b 3497 b406 2a3d 3872 8948 894c 12fc 1977 b80a 0e3d ba34 07ad 9cce b7aa 8d65 92f5 0439",
    "0a0f b543 b08f 9d7a 0654 9e8f 31ff 90f2 9a2a 1a77 0883 0c7b b120 2b85 28ae b70f ac26 1f0a b61c 898f",
    "214e 412f 3547 254c bb67 1abd 17fb 9a45 322f a95c 9905 a2ee 21d5 1912 397f b3f5 ac12 a8e5 1efe 8a03",
    "2c7b 1767 8fd7 b837 2cfb 9178 155d 8d41 112f 1ffa 0be1 a2a9 1843 ba3c 1f93 bbbb 3537 34e4 0f4d 30d3",
)


def paper(config: Config) -> Blocks:
    if config["op"] == "softmax":
        masked = repeated([[0x4200, 0x4000, ONE, 0, MINUS | INF]], config["t"])
        yield "[kllm §IV-A] logits 3, 2, 1, 0 and masked keys", {"x": masked}
    else:
        yield "[kllm §IV-A] 1, 2, 1/2, 4, 1/3", {"x": np.array([[0x4000], [ONE], [0x3800], [0x4400], [0x3555]])}


def edge(config: Config) -> Blocks:
    if config["op"] == "softmax":
        yield from _rows(config["t"])
        return
    magnitudes = np.array([0, 1, 2, 0x3FE, 0x3FF, 0x400, 0x401, ONE - 1, ONE, ONE + 1, 0x7BFE, 0x7BFF])
    why = "zeros, subnormals, one and the largest values, of either sign"
    yield why, {"x": np.concatenate([magnitudes, magnitudes + MINUS])[:, None]}
    if config["op"] == "exp":
        ranges = ((0xC8D0, 0xC8E0), (0xCC20, 0xCC70), (0x0FF0, 0x1010), (0x4988, 0x4990))
        x = np.concatenate([*(np.arange(first, last) for first, last in ranges), [MINUS | INF]])
        yield "where exp reaches the subnormals and 0, leaves 1, and exceeds fp16", {"x": x[:, None]}
    if config["op"] == "recip":
        yield "negative infinity, whose reciprocal is -0", {"x": np.array([[MINUS | INF]])}


def random(config: Config, seed: Seeds) -> Blocks:
    (port,) = find("functional").ports(config).inputs
    if config["op"] == "softmax":
        words = port_values("functional", port, (96,), seed)
        yield "logits of magnitude below 8", {"x": words & MINUS | (words & 0x7FFF) % 0x4800}
        yield "uniform finite words", {"x": port_values("functional", port, (32,), seed, "random/wide")}
    else:
        yield "uniform finite words", {"x": port_values("functional", port, (2048,), seed)}


def _rows(t: int) -> Blocks:
    single = [[ONE] + [MINUS | INF] * (t - 1), [MINUS | INF] * (t - 1) + [ONE], [0, MINUS], [MINUS, 0]]
    yield "one finite value, at either end or among zeros of both signs", {"x": repeated(single, t)}
    far = [[ONE], [0x7BFF], [0xFBFF], [0x7BFF, 0xFBFF], [0xFBFF, 0x7BFF, 0]]
    yield "equal logits; the whole range of fp16; distances that overflow", {"x": repeated(far, t)}
    near = repeated([[0, 0xCC00 + 16 * i] for i in range(8)], t)
    yield "distances whose exponential is subnormal or 0", {"x": near}
    close = repeated([[int(word, 16) for word in row.split()] for row in CLOSE], t)
    why = "quotients next to midpoints of fp16: another order of the sum, or its reciprocal, shows"
    yield why, {"x": close}, "D-kllm-20"
