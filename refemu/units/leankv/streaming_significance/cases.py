"""Golden cases of streaming_significance: logits whose maximum comes early, late, and in every tile. [leankv §7.4]"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, random_inputs


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    n, heads = config["tokens"], config["heads"]
    query, head, token = np.indices((n, heads, n))
    if kind == "paper":
        yield _case(kind, "[leankv §7.4] logits that grow with the token, in two tiles", [token * 0.25])
    if kind == "edge":
        why = "the maximum in the first tile, where no sum is corrected; then in the last, where every one is"
        yield _case(kind, why, [-token * 0.75, token * 0.75], "D-leankv-73")
        why = "a maximum in every tile: corrections round at each"
        slopes = [token * (0.1 + 0.07 * head + 0.013 * query), token * 0.3 - (token % 2) * (0.9 + 0.05 * head)]
        slopes += [token * (rate + 0.011 * head) for rate in (0.17, 0.23, 0.37)]
        yield _case(kind, why, slopes, "D-leankv-73")
        why = "logits so far apart that exponentials are 0 or subnormal; the largest finite ones"
        yield _case(kind, why, [token * 90.0 - query * 45, np.where(token == 3, 3e38, -3e38)], "D-leankv-73")
        why = "equal logits; every second token, then the others, with 2**-8 of the rest"
        yield _case(kind, why, [0.0 * token, -5.6 * (token % 2), -5.6 * (1 - token % 2)], "D-leankv-73")
        why = "one token has nearly all the attention"
        yield _case(kind, why, [8.0 * (token == each) for each in range(n)], "D-leankv-73")
        why = "later tokens are not read; heads attend in turn"
        yield _case(kind, why, [np.where(token > query, 100.0, (token + head) % 3 - 1.0)], "D-leankv-19")
    if kind == "random":
        drawn = random_inputs("streaming_significance", find("streaming_significance").ports(config).inputs, (8,), seed)
        words = drawn["logits"]
        values = (words % (1 << 22) - (1 << 21)).astype(np.float32) / np.float32(1 << 18)
        yield Cases(kind, "logits from -8 to 8", {"logits": values.view(np.uint32).astype(np.int64)})


def _case(kind: Kind, why: str, rows: list[np.ndarray], decision: str = "") -> Cases:
    """Each (queries, heads, tokens) array is a case."""
    logits = np.array(rows).astype(np.float32).reshape(len(rows), -1)
    return Cases(kind, why, {"logits": logits.view(np.uint32).astype(np.int64)}, decision)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with finite logits."""
    words = np.asarray(inputs["logits"])
    return {"logits": np.where(words & 0x7F80_0000 == 0x7F80_0000, words ^ 0x4000_0000, words).astype(words.dtype)}
