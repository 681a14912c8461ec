"""Golden cases of layer_step: a prompt in its pages, then generation steps with every choice of [leankv Algorithm 1].

Every head of every request gets the history of a single head; `several` has requests that differ. [leankv §5.3]
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Config, find
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
from refemu.units.leankv.layer_step.cases.several import joining, legal_requests, several_requests
from refemu.units.stimuli import Blocks, Inputs, Seeds, finite, joined, patterns16, patterns32, random_inputs

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


def paper(config: Config) -> Blocks:
    most = int(config["max_len"])
    if config.get("requests", 1) > 1:
        yield from joining(config)
    thresholds = CHOICES if most >= 5 + len(CHOICES) else (NOTHING, KEEP_LOW, EVERYTHING)[: most - 5]
    history = History(config, 1, 2, fresh=True)
    history.run(Prompt(5, (4, 1), (0, 2) if config["low"] is not None else ()), thresholds)
    why = "[leankv Algorithm 1] a prompt with high and low tokens, then steps that append, move and prune"
    yield why, history.inputs(), "D-leankv-62"


def edge(config: Config) -> Blocks:
    two, most = config["low"] is not None, _most(config)
    several = config["kv_heads"] > 1  # long rows
    batch = config.get("requests", 1) > 1
    if batch:
        yield from several_requests(config)
    why = "the oldest token of the window at the limits of both thresholds; then all pages are recycled"
    prompt = Prompt(4, (2,), (1,) if two else ()) if several else Prompt(6, (4, 5), (0, 1, 2, 3) if two else ())
    limits = History(config, 2, 2)
    limits.run(prompt, (EVERYTHING, NOTHING, KEEP_LOW)[: int(config["max_len"]) - prompt.tokens])
    limits.event(FINISH)
    yield why, limits.inputs(), "D-leankv-63"
    if not several:
        why = "the oldest token of the window stays; the oldest token with half of its score is dropped"
        tied = History(config, 4, 3, tied=True)
        prompt = Prompt(6, (3, 1, 0), (2,)) if two else Prompt(6, (3, 2, 1, 0))
        tied.run(prompt, ((0.1 if two else 0.25, 0.25), NOTHING, NOTHING))
        yield why, tied.inputs(), "D-leankv-28"
    for number, (tokens, high, low, key, value) in enumerate(ROUGH):
        if tokens < most:
            why = f"all bits of records and outputs: keys of 2**{key}, values of 2**{value}, every mantissa"
            rough = History(config, SEED + number, 2, rough=(key, value), fresh=tokens > 3)
            moves = MOVES[: most - tokens] if tokens < 9 else (KEEP_LOW,) * 3
            rough.run(Prompt(tokens, high, low if two else ()), moves)
            yield why, rough.inputs(), "D-leankv-25"
    for tokens in [most - 2] if batch else sorted({3, 4, *range(most - 4, most - 1)}):
        why = f"{tokens} high tokens and two more: higher slots, and pages of every number"
        full = History(config, SEED + 8 + tokens, 2, rough=(-1, 1), fresh=True)
        full.run(Prompt(tokens, tuple(range(tokens))), (NOTHING, NOTHING, KEEP_LOW)[: most - tokens])
        yield why, full.inputs(), "D-leankv-34"
    if several:
        yield "neighbouring heads decide differently, which distinguishes lanes", _apart(config), "D-leankv-28"
    why = "scales halfway between two words, and a single token with such outputs: they round to even"
    yield why, _ties(config), "D-leankv-5"
    yield "requests in sequence, so that pages come back; shares equal to a threshold", _requests(config), "D-leankv-27"
    if config["head_size"] <= SMALL_HEAD and not batch:
        why = "requests that grow page by page and finish, so that every recycled page is taken again by a step"
        yield why, _wrapped(config), "D-leankv-38"
    yield "five high pages: values that a sum loses singly, but not in pairs", _five_pages(config), "D-leankv-56"
    count = most - 1
    if several and not batch:
        low_last = _one_by_one(config, FULL, 40, Prompt(count, tuple(range(1, count)), (0,)), MOVE)
        yield "full requests whose last token is low; heads move tokens to different low slots", low_last, "D-leankv-34"
    if not several:
        why = "prompts that fill all pages with high tokens: scores and probabilities of the last slots"
        yield why, _one_by_one(config, MANY, 16, Prompt(count, tuple(range(count)))), "D-leankv-34"
    if two and not several:
        why = "requests that recycle pages of both precisions, which later steps take in the order of the heads"
        yield why, _both(config), "D-leankv-38"


def random(config: Config, seed: Seeds) -> Blocks:
    stream, events = ("layer_step", 32) if config["kv_heads"] > 1 else ("head_step", 24)
    drawn = random_inputs(stream, find("layer_step").ports(config).inputs, (1, events), seed)
    drawn["q"] &= drawn["q"].dtype.type(0xFC00 | COARSE)
    why = "any history that requests can have" if "members" in drawn else "any history that a request can have"
    yield why, legal(config, drawn)


def _apart(config: Config) -> dict[str, np.ndarray]:
    """A prompt of 5 tokens, the window 2: its oldest token is at position 3."""
    history = History(config, 32, 2, fresh=True)
    history.prompt(Prompt(5, (3, 1, 4)))
    for number, row in enumerate(history.rows[1:]):
        counts = (1, 3, 1)[number]  # queries summed in a score
        scores = [counts * APART[head % 3][number] for head in range(history.kv_heads)]
        row["score"] = patterns32(scores)
    for pair in (DIFFERENT, NOTHING, KEEP_LOW, KEEP_LOW):
        history.step(pair)
    return history.inputs()


def _ties(config: Config) -> dict[str, np.ndarray]:
    """Tokens that each replace the previous one: features from end to end in equal steps."""
    history = History(config, 8, 1, fresh=True)
    history.event(ADMIT, prompt=1, keep_high=history.each(1))
    for number, (least, most) in enumerate(TIES):
        ramp = patterns16(np.linspace(least, most, 16))
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
        history.run(Prompt(4, (0,), (1,)), (NOTHING, NOTHING))
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
    held = _device(config).layouts.high.tokens
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
        row["score"] = patterns32(max(1, tokens - 1 - position) * weight)
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
        word = int(patterns16(value))
        row["value"] = np.tile([word, 0], history.kv_heads * history.size // 2)
        row["q"] = row["q"] * 0
    return history.inputs()


def _one_by_one(
    config: Config, count: int, first: int, prompt: Prompt, last: Thresholds = NOTHING
) -> dict[str, np.ndarray]:
    """`count` devices with the prompt and a step each; first: added to SEED."""
    parts = []
    for number in range(count):
        history = History(config, SEED + first + number, 2, rough=(1, 1), fresh=number in ALONE or number == count - 1)
        history.run(prompt, [last if number == count - 1 else NOTHING])
        parts.append(history.inputs())
    return joined(parts)


def closes(config: Config, inputs: Inputs, result: Any) -> np.ndarray:
    """Generation steps: a request is loaded before them, event by event."""
    return np.asarray(inputs["op"] == STEP)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` of devices, (..., events), as histories of valid requests; vectors finite."""
    changed = {name: np.array(array) for name, array in inputs.items()}
    changed |= {name: finite(changed[name]) for name in ("key", "value", "q")}
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


def _device(config: Mapping[str, Any]) -> Any:
    return find("layer_step").unit_class(**config)


def _most(config: Mapping[str, Any]) -> int:
    """Tokens of a request that fits for any decisions of its heads; 0 if none is sure to."""
    shape = _device(config).shape
    pages = min(shape.pages // shape.entries, shape.length) - 1 - shape.reserve - (not shape.lazy_pages)
    return max(min(shape.max_len, pages * shape.high_tokens), 0)
