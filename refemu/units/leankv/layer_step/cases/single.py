"""Golden cases of layer_step: a prompt in its pages, then generation steps with every choice of [leankv Algorithm 1].

Every head of every request gets the history of a single head; `several` has requests that differ. [leankv §5.3]
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Cases, Config, Kind, find
from refemu.units.leankv.layer_step.cases.history import (
    ADMIT,
    COARSE,
    EVERYTHING,
    FINISH,
    HIGH,
    KEEP_LOW,
    LARGE,
    LOAD,
    LONG,
    NONE,
    NOTHING,
    SMALL,
    STEP,
    History,
    Prompt,
    Thresholds,
)
from refemu.units.leankv.layer_step.cases.several import legal_requests, several_requests
from refemu.units.stimuli import Seeds, random_inputs

ONE = 0x3F80_0000  #: pattern of 1.0
#: thresholds of the steps of the longest history: W, A1, A2, B2, B1, A3, C of layer_step-head
CHOICES: tuple[Thresholds, ...] = (NOTHING, NOTHING, (0.05, 0.1), (0.097, 1.0), KEEP_LOW, (0.1, 0.1), EVERYTHING)

MOVES = (KEEP_LOW, NOTHING, KEEP_LOW, KEEP_LOW, KEEP_LOW)  #: thresholds of the histories of rough vectors
#: tokens of a prompt, tokens retained high and low; exponents of keys and of values of histories of rough vectors
ROUGH = (
    (2, (1,), (), -6, -9),
    (3, (2, 1), (0,), 0, -3),
    (4, (3,), (0, 1), 4, 2),
    (5, (4, 2, 3), (1, 0), 9, 8),
    (9, (8, 7), (0,), 2, 5),
)
#: scores of the three high tokens of heads that decide differently at DIFFERENT: the oldest of the window, an older
#: one and the newest; C prunes the first, A1 appends, A3 drops the second
APART = ((0.01, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 0.01, 1.0))
DIFFERENT = (0.1, 0.2)  #: thresholds of that step
SEED = 33  #: seed of the first of these histories
#: smallest and largest feature: steps of 135.0625 and 135.1875 are between two words of a scale; the codes of 0.5 to
#: 2033 between two words of an output
TIES = ((-100.9375, 1925.0), (-100.8125, 1927.0), (0.5, 2033.0))


#: comparisons of Algorithm 1 at equality: shares of 16 of the high tokens, the oldest of the window first, and of the
#: low tokens; thresholds
LIMITS = (
    ((1, 5, 5), (3, 2), (1, 8)),  # B1, not C: the oldest of the window is at T_l
    ((4, 5, 3), (2, 2), (1, 4)),  # A2, not B1: it is at T_h
    ((5, 5, 4), (1, 1), (1, 4)),  # A1, not A2: the least high token is at T_h
    ((6, 4, 1), (3, 2), (1, 4)),  # A2, not A3: it is at T_l
    ((2, 6, 5), (1, 2), (1, 4)),  # B1, not B2: the least low token is at T_l
)
ONE_LIMIT = (((2, 4, 4, 3, 3), (), (2, 2)), ((4, 2, 4, 3, 3), (), (2, 2)))  #: A1, not C; A1, not A3
#: means and thresholds of diffkv in sixteenths: the least high token at the lower threshold, at the upper threshold,
#: the least low token at the lower threshold
MEANS = (((4, 1, 4), (3, 2), (1, 3)), ((5, 3, 4), (6, 6), (1, 3)), ((4, 2, 4), (1, 3), (1, 3)))


SMALL_HEAD = 16  #: features up to which a history of many steps is a small file
TURNS = 10  #: requests after which every place of the list has had pages of every order
MANY = 12  #: number of full prompts of one head
ALONE = (2, 7, 8)  #: those of them, besides the last, that give the last slots large probabilities
FULL = 6  #: number of full prompts of several heads
MOVE = (0.5, 1.0)  #: thresholds of their last step: a head moves its oldest token of the window, or drops it


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    two, most = config["low"] is not None, int(config["max_len"])
    several = config["kv_heads"] > 1  # long rows
    batch = config.get("requests", 1) > 1
    if batch:
        yield from several_requests(config, kind)
    if kind == "paper":
        why = "[leankv Algorithm 1] a prompt with high and low tokens, then steps that append, move and prune"
        thresholds = CHOICES if most >= 5 + len(CHOICES) else (NOTHING, KEEP_LOW, EVERYTHING)[: most - 5]
        yield _block(kind, why, config, Prompt(5, (4, 1), (0, 2) if two else ()), thresholds, 2, 1, "D-leankv-62")
    if kind == "edge":
        why = "the oldest token of the window at the limits of both thresholds; then all pages are recycled"
        prompt = Prompt(4, (2,), (1,) if two else ()) if several else Prompt(6, (4, 5), (0, 1, 2, 3) if two else ())
        limits = [EVERYTHING, NOTHING, KEEP_LOW][: most - prompt.tokens]
        yield _block(kind, why, config, prompt, limits, 2, 2, "D-leankv-63", finish=True)
    if kind == "edge" and not several:
        why = "the oldest token of the window stays; the oldest token with half of its score is dropped"
        tied = Prompt(6, (3, 1, 0), (2,)) if two else Prompt(6, (3, 2, 1, 0))
        pair = (0.1, 0.25) if two else (0.25, 0.25)
        yield _block(kind, why, config, tied, (pair, NOTHING, NOTHING), 3, 4, "D-leankv-28", tied=True)
    if kind == "edge":
        for number, (tokens, high, low, key, value) in enumerate(ROUGH):
            if tokens >= _most(config):
                continue
            why = f"all bits of records and outputs: keys of 2**{key}, values of 2**{value}, every mantissa"
            rough = History(config, SEED + number, 2, rough=(key, value), fresh=tokens > 3)
            rough.prompt(Prompt(tokens, high, low if two else ()))
            for pair in MOVES[: _most(config) - tokens] if tokens < 9 else (KEEP_LOW,) * 3:
                rough.step(pair)
            yield Cases(kind, why, rough.inputs(), "D-leankv-25")
        most_high = _most(config) - 2
        for tokens in sorted({3, 4, *range(most_high - 2, most_high + 1)} if not batch else {most_high}):
            why = f"{tokens} high tokens and two more: higher slots, and pages of every number"
            full = History(config, SEED + 8 + tokens, 2, rough=(-1, 1), fresh=True)
            full.prompt(Prompt(tokens, tuple(range(tokens))))
            for pair in (NOTHING, NOTHING, KEEP_LOW)[: most_high + 2 - tokens]:
                full.step(pair)
            yield Cases(kind, why, full.inputs(), "D-leankv-34")
        if several:
            why = "neighbouring heads decide differently, which distinguishes lanes"
            yield Cases(kind, why, _apart(config), "D-leankv-28")
        why = "scales halfway between two words, and a single token with such outputs: they round to even"
        yield Cases(kind, why, _ties(config), "D-leankv-5")
    if kind == "edge":
        why = "requests in sequence, so that pages come back; shares equal to a threshold"
        yield Cases(kind, why, _requests(config), "D-leankv-27")
        if config["head_size"] <= SMALL_HEAD and not batch:
            why = "requests that grow page by page and finish, so that every recycled page is taken again by a step"
            yield Cases(kind, why, _wrapped(config), "D-leankv-38")
        why = "five high pages: values that a sum loses singly, but not in pairs"
        yield Cases(kind, why, _five_pages(config), "D-leankv-56")
    if kind == "edge" and several and not batch:
        why = "full requests whose last token is low; heads move tokens to different low slots"
        yield Cases(kind, why, _full(config), "D-leankv-34")
    elif kind == "edge" and not several:
        why = "prompts that fill all pages with high tokens: scores and probabilities of the last slots"
        yield Cases(kind, why, _many(config), "D-leankv-34")
        if two:
            why = "requests that recycle pages of both precisions, which later steps take in the order of the heads"
            yield Cases(kind, why, _both(config), "D-leankv-38")
    if kind == "random":
        stream, events = ("layer_step", 32) if several else ("head_step", 24)
        drawn = random_inputs(stream, find("layer_step").ports(config).inputs, (1, events), seed)
        drawn["q"] &= drawn["q"].dtype.type(0xFC00 | COARSE)
        why = "any history that requests can have" if "members" in drawn else "any history that a request can have"
        yield Cases(kind, why, legal(config, drawn))


def _block(
    kind: Kind,
    why: str,
    config: Config,
    prompt: Prompt,
    thresholds: Sequence[Thresholds],
    window: int,
    seed: int,
    decision: str = "",
    finish: bool = False,
    tied: bool = False,
) -> Cases:
    """One case: the prompt, then a step for every pair of thresholds."""
    history = History(config, seed, window, tied, fresh=kind == "paper")
    history.prompt(prompt)
    for pair in thresholds:
        history.step(pair)
    if finish:
        history.event(FINISH)
    return Cases(kind, why, history.inputs(), decision)


def _apart(config: Config) -> dict[str, np.ndarray]:
    """A prompt of 5 tokens, the window 2: its oldest token is at position 3."""
    history = History(config, 32, 2, fresh=True)
    history.prompt(Prompt(5, (3, 1, 4)))
    for number, row in enumerate(history.rows[1:]):
        counts = (1, 3, 1)[number]  # queries summed in a score
        scores = [counts * APART[head % 3][number] for head in range(history.kv_heads)]
        row["score"] = np.array(scores, np.float32).view(np.uint32).astype(np.int64)
    for pair in (DIFFERENT, NOTHING, KEEP_LOW, KEEP_LOW):
        history.step(pair)
    return history.inputs()


def _ties(config: Config) -> dict[str, np.ndarray]:
    """Tokens that each replace the previous one: features from end to end in equal steps."""
    history = History(config, 8, 1, fresh=True)
    history.event(ADMIT, prompt=1, keep_high=history.each(1))
    for number, (least, most) in enumerate(TIES):
        ramp = fp16.bits(fp16.to_f16(np.linspace(least, most, 16))).astype(np.int64)
        vectors = np.tile(ramp, history.kv_heads * history.size // 16)
        if number == 0:
            history.event(LOAD, section=history.each(HIGH), key=vectors, value=vectors)
            continue
        history.step(EVERYTHING)
        history.rows[-1] |= {"key": vectors, "value": vectors}
    history.step(KEEP_LOW)
    return history.inputs()


def _requests(config: Config) -> dict[str, np.ndarray]:
    """Requests that retain one token, of few and of many pages, then one request for each limit.

    The list of free pages wraps in the third request, while a device that leaks unused pages still has some.
    """
    history = History(config, 9, 2, fresh=True)
    limits = MEANS if history.alphas else LIMITS if config["low"] is not None else ONE_LIMIT
    single = ((1,), (), NOTHING)
    requests = [*((LONG // 2, *single),) * 3, (LONG, *single), *((LONG, *limit) for limit in limits)]
    for tokens, high, low, pair in requests:
        positions = range(tokens - 2, tokens - 2 - len(high) - len(low), -1)
        history.prompt(Prompt(tokens, tuple(positions[: len(high)]), tuple(positions[len(high) :])))
        for row, position, share in zip(history.rows[-len(positions) :], positions, (*high, *low), strict=True):
            count = tokens - position - (not config.get("include_self"))
            row["score"] = history.each(int(np.array(count * share / 16, np.float32).view(np.uint32)))
        history.step((pair[0] / 16 * history.alpha, pair[1] / 16 * history.alpha))
        if pair == NOTHING:
            history.step(NOTHING)
            history.step(NOTHING)
        history.event(FINISH)
    return history.inputs()


def _both(config: Config) -> dict[str, np.ndarray]:
    """Requests with a high and a low page; the third takes those of the first."""
    history = History(config, 5, 2)
    for _ in range(3):
        history.prompt(Prompt(4, (0,), (1,)))
        history.step(NOTHING)
        history.step(NOTHING)
        history.event(FINISH)
    return history.inputs()


def _wrapped(config: Config) -> dict[str, np.ndarray]:
    """Requests of TURNS lengths: their steps take pages of both sections, one by one, around the list."""
    history, most = History(config, 6, 2), _most(config)
    for turn in range(TURNS):
        tokens = max(1, (1, most // 2, 2, most - 1)[turn % 4])
        history.prompt(Prompt(tokens, (tokens - 1,)))
        for step in range(most - tokens):
            history.step(KEEP_LOW if turn % 3 == 1 else (NOTHING, KEEP_LOW)[(step + turn // 2) % 2])
        history.event(FINISH)
    held = find("layer_step").unit_class(**config).layouts.high.tokens
    count = held * -(-3 // held)  # high tokens that fill their pages
    if history.kv_heads > 1 and config["low"] is not None and count + 2 <= most:
        _opposed(history, count)
    return history.inputs()


def _opposed(history: "History", count: int) -> None:
    """A step in which every second head takes a low page and the others a high one."""
    tokens = count + 1
    positions = (tokens - 2, *range(count - 2), tokens - 1)
    history.prompt(Prompt(tokens, positions))
    for row, position in zip(history.rows[-count:], positions, strict=True):
        weight = np.where((np.arange(history.kv_heads) % 2 == 0) & (position == tokens - 2), 0.01, 1.0)
        row["score"] = (max(1, tokens - 1 - position) * weight).astype(np.float32).view(np.uint32).astype(np.int64)
    history.step((0.0, 0.5 / count))


def _five_pages(config: Config) -> dict[str, np.ndarray]:
    """Queries of zeros. LARGE in the first page and its opposite in the second, two small values in the fifth.

    If pages are few, only the first head has that many.
    """
    history = History(config, 10, 2)
    kept = history.each(LONG)
    if config["pages"] < 5 * history.kv_heads:
        kept[1:] = 2
    history.event(ADMIT, prompt=LONG, keep_high=kept)
    for slot in range(LONG):
        section = np.where(slot < kept, HIGH, NONE)
        history.event(LOAD, section=section, position=history.each(slot), **history.tokens())
    history.step(NOTHING)
    history.step(NOTHING)
    for row, value in zip(history.rows[1:], (LARGE, 0, -LARGE, *[0] * (LONG - 3), SMALL, SMALL), strict=True):
        word = int(fp16.bits(fp16.to_f16(np.array(value))))
        row["value"] = np.tile([word, 0], history.kv_heads * history.size // 2)
        row["q"] = row["q"] * 0
    return history.inputs()


def _many(config: Config) -> dict[str, np.ndarray]:
    """Prompts of one length, each with different vectors and scores, and a step after each."""
    count = _most(config) - 1
    return _one_by_one(config, MANY, 16, Prompt(count, tuple(range(count))))


def _full(config: Config) -> dict[str, np.ndarray]:
    """Such prompts with one low token; the last step moves tokens."""
    tokens = _most(config) - 1
    return _one_by_one(config, FULL, 40, Prompt(tokens, tuple(range(1, tokens)), (0,)), MOVE)


def _one_by_one(
    config: Config, count: int, first: int, prompt: Prompt, last: Thresholds = NOTHING
) -> dict[str, np.ndarray]:
    """`count` devices with the prompt and a step each; first: added to SEED."""
    parts = []
    for number in range(count):
        history = History(config, SEED + first + number, 2, rough=(1, 1), fresh=number in ALONE or number == count - 1)
        history.prompt(prompt)
        history.step(last if number == count - 1 else NOTHING)
        parts.append(history.inputs())
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def closes(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> np.ndarray:
    """Generation steps: a request is loaded before them, event by event."""
    return np.asarray(inputs["op"] == STEP)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` of devices, (..., events), as histories of valid requests; vectors finite."""
    changed = {name: np.array(array) for name, array in inputs.items()}
    for name in ("key", "value", "q"):
        x = changed[name]
        changed[name] = np.where(x & 0x7C00 == 0x7C00, x ^ 0x4000, x).astype(x.dtype)
    words = changed["thresholds"].astype(np.int64)
    if config.get("policy", "algorithm1") == "algorithm1":
        words = np.where(words > ONE, words % (ONE + 1), words)
    words = np.sort(words, axis=-1, kind="stable")
    if config["low"] is None:
        words[..., 1] = words[..., 0]
    changed["thresholds"] = words.astype(changed["thresholds"].dtype)
    events = changed["op"].shape[-1]
    rows = {
        name: array.reshape(-1, events, array.shape[-1] if array.ndim > changed["op"].ndim else 1)
        for name, array in changed.items()
    }
    most = _most(config)
    for device in range(rows["op"].shape[0]):
        legal_requests(config, most, {name: array[device] for name, array in rows.items()})
    return {name: rows[name].reshape(array.shape) for name, array in changed.items()}


def _most(config: Mapping[str, Any]) -> int:
    """Tokens of a request that fits for any decisions of its heads; 0 if none is sure to."""
    shape = find("layer_step").unit_class(**config).shape
    pages = min(shape.pages // shape.entries, shape.length) - 1 - shape.reserve - (not shape.lazy_pages)
    return max(min(shape.max_len, pages * shape.high_tokens), 0)
