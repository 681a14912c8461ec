"""Golden cases of kllm_chip: tokens of [kllm Fig. 5]'s kind, with ties among their outliers, by columns of three tiles.

With the Functional Unit, no output is NaN or +Inf, and columns also produce the cases of functional.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats import Codebook, cartesian
from refemu.units import Cases, Config, Kind, find
from refemu.units.kllm.functional import cases as functional_cases
from refemu.units.stimuli import Seeds, random_inputs

BOOK = (0xBB00, 0xB400, 0x3400, 0x3900)  #: centroids of 2 bits
ONE, LARGEST, SIGN, INFINITY = 0x3C00, 0x7BFF, 0x8000, 0x7C00

#: logits with a score that changes if the exponentials of a cycle are added as a tree
IN_ORDER = (
    "c17c 4175 c461 be83 c074 be8f 3e06 403b c7ad bde9 46c1 c097 c0f1 3d27 c1ad bd35 c2f2 43dd 37fc bcad",
    "c120 3cbe 3986 45ac 3b00 4112 c133 408c 3722 4362 c55a c324 c112 be1e bd16 c37a c5a6 43a6 3b20 c054",
)


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    k, functions = config["k"], config["function"] != "none"
    if kind == "paper":
        why = "[kllm §III-D, Fig. 5] a token with an outlier of either side, by all columns"
        yield Cases(kind, why, _tokens(config, [_counting(k)]))
    if kind == "edge":
        yield Cases(
            kind, "ties among the outliers of either side, in one pass and across passes", _tied(config), "D-kllm-60"
        )
        zeros = [[0] * k, [0x8000] * k, [0x3C00, *[0] * (k - 2), 0xBC00], [0x8000, 0x4000, 0xC000, *[0] * (k - 3)]]
        yield Cases(kind, "zeros alone, and with outliers: a scale of 1", _tokens(config, zeros), "D-kllm-11")
        yield Cases(kind, "outliers at every place in turn", _tokens(config, _in_turn(k)))
        ends = [[0x7BFF - i for i in range(k)], [0xFBFF - i for i in range(k)], [1 + i for i in range(k)]]
        why = "the largest values, all of one sign; subnormal values: the scale is the larger of both roots"
        small = {"b_scale": _tokens(config, ends)["b_scale"] - 0x2000} if functions else {}
        yield Cases(kind, why, _tokens(config, ends) | small, "D-kllm-9")
        yield Cases(kind, "quotients on either side of half a step, above a midpoint", _halfway(config), "D-kllm-8")
        if not functions:
            beyond = _tokens(config, [_counting(k)] * 2)
            turns = np.arange(config["n"]) % 2 == np.arange(2)[:, None]
            beyond |= {"b_scale": np.where(turns, LARGEST, 0x0400), "x": beyond["x"] + 0x3000 & 0xFBFF}
            yield Cases(kind, "every other column beyond fp16, then the others", beyond)
        yield Cases(kind, "one index at all positions: the largest counts", _alike(config))
    if functions and kind != "random" and config["b_bits"] == 2:
        yield from _functions(config, kind, seed)
    if kind == "edge":
        why = "an output that underflows; inliers between the midpoints of a codebook and those of wrong ones"
        yield Cases(kind, why, _between(config), "D-kllm-8")
    if kind == "random":
        yield from _random(config, seed)


def _functions(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Outputs that are inputs of the Functional Unit's cases."""
    t = config["n"] if config["function"] == "softmax" else 1
    parameters = {"op": config["function"], "t": t, "softmax": config["softmax"]}
    for block in functional_cases.cases(Config(**parameters), kind, seed):
        words = np.resize(block.inputs["x"], (-(-block.inputs["x"].size // config["n"]), config["n"]))
        yield Cases(kind, f"{block.why} (outputs)", _outputs(config, words), block.decision)
    if kind == "edge":
        rows = [np.resize([int(word, 16) for word in row.split()], config["n"]) for row in IN_ORDER]
        why = "exponentials whose sum depends on the order (outputs)"
        yield Cases(kind, why, _outputs(config, np.array(rows)), "D-kllm-20")


def _outputs(config: Config, words: np.ndarray) -> dict[str, np.ndarray]:
    """Columns whose outputs are given words: 1 times the magnitude as a scale; -Inf beyond fp16, -0 as +0.

    The first position of a token of 1 selects a nonzero entry of the product codebook; outliers, 2 and -2, select 0.
    """
    k, pops = config["k"], config["pops"]
    token = [ONE] + [0x4000] * pops + [ONE] * (k - 1 - 2 * pops) + [0xC000] * pops
    inputs = _tokens(config, [token] * len(words))
    magnitude, index = words & 0x7FFF, np.zeros((*words.shape, k), np.int64)
    index[:, :, 0] = np.where(words > SIGN, 2, 1) * (magnitude > 0)
    index[:, :, 0] += words == SIGN | INFINITY
    entries = np.array([0, ONE, SIGN | ONE, SIGN | LARGEST])
    return inputs | {
        "b_index": index.reshape(len(words), -1),
        "b_scale": np.clip(magnitude, 1, LARGEST),
        "b_codebook": np.tile(entries, (len(words), 1)),
        "products": np.tile(entries, (len(words), 1 << config["a_bits"])),
    }


def _random(config: Config, seed: Seeds) -> Iterator[Cases]:
    ports = find("kllm_chip").ports(config).inputs
    drawn = random_inputs("kllm_chip", ports, (3,), seed)
    word = drawn["x"]
    near = {"x": (word & 0x83FF) | (8 + (word >> 10) % 8) << 10, "b_scale": 0x3000 + (drawn["b_scale"] & 0xFFF)}
    for name in ("a_codebook", "b_codebook"):
        near[name] = (drawn[name] & 0x83FF) | (9 + (drawn[name] >> 10) % 6) << 10
    yield Cases(
        "random", "values and centroids between 2^-7 and 1, products of them", _multiplied(legal(config, drawn | near))
    )
    few = {name: array[::3] for name, array in drawn.items()}
    yield Cases("random", "any words", legal(config, few))


def _counting(k: int) -> list[int]:
    """Values of both signs around 1, none twice; the third is large, the fifth small."""
    values = [0x3800 + 37 * i | (0x8000 if i % 3 == 1 else 0) for i in range(k)]
    values[2], values[4] = 0x4D00, 0xCE00
    return values


def _in_turn(k: int) -> list[list[int]]:
    """Tokens with the largest value at each place of the first half, and the smallest half a token later."""
    tokens = []
    for place in range(k // 2):
        token = _counting(k)
        token[2], token[4] = 0x3A00, 0xBA20
        token[place], token[place + k // 2] = 0x4D00 + place, 0xCE00 + place
        tokens.append(token)
    return tokens


def _halfway(config: Config) -> dict[str, np.ndarray]:
    """Inliers whose quotient by the scale is below, or above, half a step over the midpoint of two centroids.

    The midpoint is an even number of steps. A quotient that is not rounded to nearest gets another index.
    """
    scale, pairs = fp16.values(np.array(0x3E01)), {}
    for word in range(0x3C00, 0x3D80):
        steps = float(fp16.values(np.array(word))) / float(scale) * 2048  # steps of 2^-11: quotients from 0.5 to 1
        if steps % 2 < 1 and steps % 1 not in (0, 0.5):
            pairs[steps % 1 > 0.5] = word, int(steps)
    tokens, books = [], []
    for more in (True, False):
        word, middle = pairs[more]
        token = [0x3000 + 16 * i for i in range(config["k"])]
        token[0], token[3], token[5], token[-1] = 0x3E01, 0x4E00, word, 0xCE00
        near = [0xBA00, *((middle + side) / 2048 for side in (-96, 96)), 0x3C00]
        book = [value if isinstance(value, int) else int(fp16.bits(fp16.to_f16(np.array(value)))) for value in near]
        tokens.append(token)
        books.append(book if config["a_bits"] == 2 else book[1:3])
    return _multiplied(_tokens(config, tokens) | {"a_codebook": np.array(books)})


def _between(config: Config) -> dict[str, np.ndarray]:
    """Inliers whose index changes if all centroids are negative, lose their lowest bit or have nibbles swapped."""
    k, pops, book = config["k"], config["pops"], (0xBA01, 0xB801, 0xB401, 0x2601)
    inliers = [ONE, 0xB901, 0xB000, 0xAF41, *[0] * k][: k - 2 * pops]
    inputs = _tokens(config, [[*inliers, *[0x4000] * pops, *[0xC000] * pops]])
    inputs["a_codebook"] = np.array([book if config["a_bits"] == 2 else book[2:]])
    inputs["b_index"][:, :k], inputs["b_scale"][:, 0] = 1, 1
    return _multiplied(inputs)


def _tied(config: Config) -> dict[str, np.ndarray]:
    """Equal pairs at even and odd places and in different chunks, and tokens of few values."""
    k, tokens = config["k"], []
    for places in ((0, 1), (k - 2, k - 1), (1, k - 1), (2, 3, k - 3, k - 4), range(k)):
        for word in (0x4C00, 0xCC00):
            token = _counting(k)
            for place in places:
                token[place] = word
            tokens.append(token)
    tokens.append([0x3C00, 0xBC00] * (k // 2) + [0x3C00] * (k % 2))
    return _tokens(config, tokens)


def _tokens(config: Config, tokens: list[list[int]]) -> dict[str, np.ndarray]:
    """Tokens by columns in turn."""
    count, n, k = len(tokens), config["n"], config["k"]
    books = {name: np.array(BOOK if config[f"{name}_bits"] == 2 else BOOK[1:3]) for name in "ab"}
    index = np.arange(count * n * k) * 3 // 2 % (1 << config["b_bits"])
    inputs = {
        "x": np.array(tokens, np.int64),
        "a_codebook": np.tile(books["a"], (count, 1)),
        "b_index": index.reshape(count, n * k),
        "b_scale": np.tile(0x3800 + 0x55 * np.arange(n), (count, 1)),
        "b_codebook": np.tile(books["b"] + 1, (count, 1)),
    }
    return _multiplied(inputs)


def _alike(config: Config) -> dict[str, np.ndarray]:
    """Equal values except for the outliers, and columns of one index."""
    token = [0x3C00] * config["k"]
    token[1], token[-2] = 0x4000, 0xC000
    inputs = _tokens(config, [token, token])
    columns = (np.arange(2)[:, None] + np.arange(config["n"])).repeat(config["k"], axis=1)
    return inputs | {"b_index": columns % (1 << config["b_bits"])}


def _multiplied(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the product codebook of both codebooks."""
    books = zip(inputs["a_codebook"], inputs["b_codebook"], strict=True)
    rows = [cartesian(_book(a), _book(b)).values for a, b in books]
    return inputs | {"products": np.stack(rows).astype(np.int64)}


def _book(words: np.ndarray) -> Codebook:
    return Codebook(len(words).bit_length() - 1, words.astype(np.uint16))


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Finite values, and centroids of A that ascend; all below 2 where outputs must not overflow (D-kllm-63)."""
    if config["function"] != "none":
        inputs = {name: array if name == "b_index" else array & 0xBFFF for name, array in inputs.items()}
        inputs["b_scale"] = np.maximum(inputs["b_scale"], 1)
    book = inputs["a_codebook"]
    order = np.argsort(fp16.order_key(book.astype(np.uint16)), axis=-1, kind="stable")
    return {**inputs, "a_codebook": np.take_along_axis(book, order, axis=-1)}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    overflow = np.asarray(np.asarray(result.overflow).reshape(len(inputs["x"]), -1).any(axis=-1))
    keys = np.sort(fp16.order_key(inputs["x"].astype(np.uint16)), axis=-1, kind="stable")
    pops = config["pops"]
    tied = (keys[:, pops - 1] == keys[:, pops]) | (keys[:, -pops] == keys[:, -pops - 1]) if pops else overflow & False
    return {"OVERFLOW": overflow, "TIES": np.asarray(tied)}
