"""Golden cases of streaming_significance: logits whose maximum comes early, late, and in every tile. [leankv §7.4]"""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, patterns32, uniform


def paper(config: Config) -> Blocks:
    shape = config["tokens"], config["heads"], config["tokens"]
    *_, token = np.indices(shape)
    yield _case("[leankv §7.4] logits that grow with the token, in two tiles", [token * 0.25])


def edge(config: Config) -> Blocks:
    n, heads = config["tokens"], config["heads"]
    query, head, token = np.indices((n, heads, n))
    why = "the maximum in the first tile, where no sum is corrected; then in the last, where every one is"
    yield _case(why, [-token * 0.75, token * 0.75], "D-leankv-73")
    why = "a maximum in every tile: corrections round at each"
    slopes = [token * (0.1 + 0.07 * head + 0.013 * query), token * 0.3 - (token % 2) * (0.9 + 0.05 * head)]
    slopes += [token * (rate + 0.011 * head) for rate in (0.17, 0.23, 0.37)]
    yield _case(why, slopes, "D-leankv-73")
    why = "logits so far apart that exponentials are 0 or subnormal; the largest finite ones"
    yield _case(why, [token * 90.0 - query * 45, np.where(token == 3, 3e38, -3e38)], "D-leankv-73")
    why = "equal logits; every second token, then the others, with 2**-8 of the rest"
    yield _case(why, [0.0 * token, -5.6 * (token % 2), -5.6 * (1 - token % 2)], "D-leankv-73")
    yield _case("one token has nearly all the attention", [8.0 * (token == each) for each in range(n)], "D-leankv-73")
    why = "later tokens are not read; heads attend in turn"
    yield _case(why, [np.where(token > query, 100.0, (token + head) % 3 - 1.0)], "D-leankv-19")


def random(config: Config, seed: Seeds) -> Blocks:
    words = uniform("streaming_significance", config, (8,), seed)["logits"]
    yield "logits from -8 to 8", {"logits": patterns32((words % (1 << 22) - (1 << 21)) / (1 << 18))}


def _case(why: str, rows: list[np.ndarray], decision: str = "") -> Block:
    """Each (queries, heads, tokens) array is a case."""
    return why, {"logits": patterns32(rows).reshape(len(rows), -1)}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with finite logits."""
    words = np.asarray(inputs["logits"])
    return {"logits": np.where(words & 0x7F80_0000 == 0x7F80_0000, words ^ 0x4000_0000, words).astype(words.dtype)}
