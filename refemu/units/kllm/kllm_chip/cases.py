"""Golden cases of kllm_chip: tokens of [kllm Fig. 5]'s kind, with ties among their outliers, by columns of three tiles.

With the Functional Unit, no output is NaN or +Inf, and columns also produce the cases of functional.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.formats import Codebook, cartesian
from refemu.units import Config
from refemu.units.kllm.functional import cases as functional_cases
from refemu.units.stimuli import Blocks, Inputs, Seeds, patterns16, repeated, uniform

BOOK = (0xBB00, 0xB400, 0x3400, 0x3900)  #: centroids of 2 bits
ONE, LARGEST, SIGN, INFINITY = 0x3C00, 0x7BFF, 0x8000, 0x7C00

#: logits with a score that changes if the exponentials of a cycle are added as a tree
IN_ORDER = (
    "c17c 4175 c461 be83 c074 be8f 3e06 403b c7ad bde9 46c1 c097 c0f1 3d27 c1ad bd35 c2f2 43dd 37fc bcad",
    "c120 3cbe 3986 45ac 3b00 4112 c133 408c 3722 4362 c55a c324 c112 be1e bd16 c37a c5a6 43a6 3b20 c054",
)


def paper(config: Config) -> Blocks:
    why = "[kllm §III-D, Fig. 5] a token with an outlier of either side, by all columns"
    yield why, _tokens(config, [_counting(config["k"])])
    yield from _functions(config, functional_cases.paper)


def edge(config: Config) -> Blocks:
    k, functions = config["k"], config["function"] != "none"
    yield "ties among the outliers of either side, in one pass and across passes", _tied(config), "D-kllm-60"
    zeros = [[0] * k, [0x8000] * k, [0x3C00, *[0] * (k - 2), 0xBC00], [0x8000, 0x4000, 0xC000, *[0] * (k - 3)]]
    yield "zeros alone, and with outliers: a scale of 1", _tokens(config, zeros), "D-kllm-11"
    yield "outliers at every place in turn", _tokens(config, _in_turn(k))
    ends = _tokens(
        config, [[first + step * i for i in range(k)] for first, step in ((0x7BFF, -1), (0xFBFF, -1), (1, 1))]
    )
    why = "the largest values, all of one sign; subnormal values: the scale is the larger of both roots"
    yield why, ends | {"b_scale": ends["b_scale"] - 0x2000 * functions}, "D-kllm-9"
    yield "quotients on either side of half a step, above a midpoint", _halfway(config), "D-kllm-8"
    if not functions:
        beyond = _tokens(config, [_counting(k)] * 2)
        turns = np.arange(config["n"]) % 2 == np.arange(2)[:, None]
        beyond |= {"b_scale": np.where(turns, LARGEST, 0x0400), "x": beyond["x"] + 0x3000 & 0xFBFF}
        yield "every other column beyond fp16, then the others", beyond
    yield "one index at all positions: the largest counts", _alike(config)
    yield from _functions(config, functional_cases.edge)
    if functions and config["b_bits"] == 2:
        rows = repeated([[int(word, 16) for word in row.split()] for row in IN_ORDER], config["n"])
        yield "exponentials whose sum depends on the order (outputs)", _outputs(config, rows), "D-kllm-20"
    why = "an output that underflows; inliers between the midpoints of a codebook and those of wrong ones"
    yield why, _between(config), "D-kllm-8"


def _functions(config: Config, blocks: Callable[[Config], Blocks]) -> Blocks:
    """Outputs that are inputs of the Functional Unit's cases."""
    if config["function"] == "none" or config["b_bits"] != 2:
        return
    t = config["n"] if config["function"] == "softmax" else 1
    for why, inputs, *decision in blocks(Config(op=config["function"], t=t, softmax=config["softmax"])):
        words = np.resize(inputs["x"], (-(-inputs["x"].size // config["n"]), config["n"]))
        yield f"{why} (outputs)", _outputs(config, words), *decision


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


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("kllm_chip", config, (3,), seed)
    word = drawn["x"]
    near = {"x": (word & 0x83FF) | (8 + (word >> 10) % 8) << 10, "b_scale": 0x3000 + (drawn["b_scale"] & 0xFFF)}
    for name in ("a_codebook", "b_codebook"):
        near[name] = (drawn[name] & 0x83FF) | (9 + (drawn[name] >> 10) % 6) << 10
    yield "values and centroids between 2^-7 and 1, products of them", _multiplied(legal(config, drawn | near))
    few = {name: array[::3] for name, array in drawn.items()}
    yield "any words", legal(config, few)


def _counting(k: int) -> np.ndarray:
    """Values of both signs around 1, none twice; the third is large, the fifth small."""
    place = np.arange(k)
    values = 0x3800 + 37 * place | np.where(place % 3 == 1, 0x8000, 0)
    values[2], values[4] = 0x4D00, 0xCE00
    return values


def _in_turn(k: int) -> np.ndarray:
    """Tokens with the largest value at each place of the first half, and the smallest half a token later."""
    tokens, place = np.tile(_counting(k), (k // 2, 1)), np.arange(k // 2)
    tokens[:, 2], tokens[:, 4] = 0x3A00, 0xBA20
    tokens[place, place], tokens[place, place + k // 2] = 0x4D00 + place, 0xCE00 + place
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
        book = patterns16([-0.75, (middle - 96) / 2048, (middle + 96) / 2048, 1.0])
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
            token[list(places)] = word
            tokens.append(token)
    tokens.append(np.resize([0x3C00, 0xBC00], k))
    return _tokens(config, tokens)


def _tokens(config: Config, tokens: ArrayLike) -> dict[str, np.ndarray]:
    """Tokens by columns in turn."""
    x, n, k = np.array(tokens, np.int64), config["n"], config["k"]
    count = len(x)
    books = {name: np.array(BOOK if config[f"{name}_bits"] == 2 else BOOK[1:3]) for name in "ab"}
    index = np.arange(count * n * k) * 3 // 2 % (1 << config["b_bits"])
    inputs = {
        "x": x,
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


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Finite values, and centroids of A that ascend; all below 2 where outputs must not overflow (D-kllm-63)."""
    if config["function"] != "none":
        inputs = {name: array if name == "b_index" else array & 0xBFFF for name, array in inputs.items()}
        inputs["b_scale"] = np.maximum(inputs["b_scale"], 1)
    book = inputs["a_codebook"]
    order = np.argsort(fp16.order_key(book.astype(np.uint16)), axis=-1, kind="stable")
    return {**inputs, "a_codebook": np.take_along_axis(book, order, axis=-1)}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    overflow = np.asarray(np.asarray(result.overflow).reshape(len(inputs["x"]), -1).any(axis=-1))
    keys = np.sort(fp16.order_key(inputs["x"].astype(np.uint16)), axis=-1, kind="stable")
    pops = config["pops"]
    tied = (keys[:, pops - 1] == keys[:, pops]) | (keys[:, -pops] == keys[:, -pops - 1]) if pops else overflow & False
    return {"OVERFLOW": overflow, "TIES": np.asarray(tied)}
