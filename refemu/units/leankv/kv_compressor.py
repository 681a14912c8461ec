"""The compressor of a KV cache: quantizes tokens into pages, and moves a token from the high to the low precision.

Paper: [leankv §4, §6.1, Fig. 8]. Composed of `formats.Affine` and `formats.UnifiedPage`; what goes where is decided by
prompt_compressor and generation_compressor. Decisions: D-leankv-30 (a low token is made of stored codes), D-leankv-31
(the freed slot), D-leankv-47, D-leankv-48 (position and score segments as the published code fills them).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice
from refemu.formats import UnifiedPage, hetero_kv
from refemu.formats.affine import PRESETS
from refemu.units import kv_compressor_cases, unit
from refemu.units.prompt_compressor import HIGH, LOW, WINDOW
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds

APPEND_HIGH, APPEND_LOW, REPLACE, DROP = range(4)  #: operations
QUIRKS = ("score_by_rank", "position_epoch")  #: defects of the published code that the pages show
EPOCH = 64  #: queries after a token that the published code looks at


def write(
    page: UnifiedPage,
    preset: str,
    images: np.ndarray,
    pages: Any,
    slots: Any,
    key: np.ndarray,
    value: np.ndarray,
    score: Any,
    position: Any,
) -> None:
    """Quantize tokens and put them into slots.

    images: (pages, page_bytes / 2) uint16, written in place. pages, slots: of every token, (count,). key, value:
    (count, F) fp16. score: float32, position: int32, (count,) or one for all.
    """
    records = page.record(page.config.key(preset).encode(key), page.config.value(preset).encode(value), score, position)
    for image, slot, record in zip(pages, slots, records, strict=True):
        page.write(images[image], slot, record)


def requantize(
    high: UnifiedPage,
    low: UnifiedPage,
    preset: str,
    images: np.ndarray,
    source: Sequence[tuple[int, int]],
    target: Sequence[tuple[int, int]],
) -> None:
    """Move tokens, each from (page, slot) of the high section to (page, slot) of the low one.

    The stored codes are decoded and encoded afresh; score and position go along unchanged (D-leankv-30).
    """
    for (image, slot), (to_image, to_slot) in zip(source, target, strict=True):
        token = high.tokens_of(high.read(images[image], slot), preset)
        record = low.record(
            low.config.key(preset).encode(token.key.decode()),
            low.config.value(preset).encode(token.value.decode()),
            token.score,
            token.position,
        )
        low.write(images[to_image], to_slot, record)


@dataclass(frozen=True)
class PromptPlan:
    """Where the kept tokens of a prompt go: positions and what is stored with them, in the order of the slots."""

    high: np.ndarray  #: (n_high,) positions of high and window tokens
    low: np.ndarray  #: (n_low,)
    score: np.ndarray  #: (N,) float32, by position
    position: np.ndarray  #: (N,) int32, by position


def plan_prompt(cls: np.ndarray, order: np.ndarray, score: np.ndarray, quirks: Sequence[str] = ()) -> PromptPlan:
    """Slots of the tokens that prompt_compressor classified, and what their score and position segments hold.

    cls, order: (N,) as it returns them. score: (N,) float32 sums S. quirks: some of QUIRKS. With `score_by_rank` the
    token of rank r stores S[r], where the prompt was sorted (D-leankv-48); with `position_epoch` a token stores
    N - min(N - position, 64) (D-leankv-47).
    """
    for quirk in quirks:
        require_choice(quirk, QUIRKS, "kv_compressor", "quirks")
    n, ordered = len(order), np.asarray(cls)[order]
    stored = np.asarray(score, np.float32).copy()
    if "score_by_rank" in quirks and not (ordered == WINDOW).all():
        stored[order] = score
    position = np.arange(n, dtype=np.int32)
    if "position_epoch" in quirks:
        position = (n - np.minimum(n - position, EPOCH)).astype(np.int32)
    return PromptPlan(order[(ordered == HIGH) | (ordered == WINDOW)], order[ordered == LOW], stored, position)


def places(page: UnifiedPage, ids: Sequence[int] | np.ndarray, slots: Any) -> tuple[np.ndarray, np.ndarray]:
    """Page and slot of the section slots `slots`: slot r stands in page r // N of the section, at r % N."""
    r = np.asarray(slots)
    return np.asarray(ids)[r // page.tokens], r % page.tokens


def write_prompt(
    high: UnifiedPage,
    low: UnifiedPage | None,
    preset: str,
    images: np.ndarray,
    ids: Sequence[Any],
    plan: PromptPlan,
    key: np.ndarray,
    value: np.ndarray,
) -> None:
    """Write the kept tokens of one head's prompt. ids: page ids of the high and the low section; key, value: (N, F)."""
    for page, section, tokens in ((high, ids[0], plan.high), (low, ids[1], plan.low)):
        if page is not None and len(tokens):
            pages, slots = places(page, section, np.arange(len(tokens)))
            write(
                page,
                preset,
                images,
                pages,
                slots,
                key[tokens],
                value[tokens],
                plan.score[tokens],
                plan.position[tokens],
            )


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "requantize" or "write"
    index: int  #: number of the operation, -1 for the reset
    op: int
    victim: int
    low_slot: int
    key: tuple[int, ...]
    value: tuple[int, ...]
    score: int
    position: int
    written: tuple[int, ...]  #: the record of the new token
    moved: tuple[int, ...]  #: the record of the requantized token
    n_high: int
    n_low: int
    high: tuple[int, ...]  #: words of the high page
    low: tuple[int, ...]  #: of the low one
    tokens_written: int
    requantized: int
    pruned: int  #: tokens whose slot was taken and that went nowhere


COUNTERS = ("tokens_written", "requantized", "pruned")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit, one value per operation, and its registers."""

    written: np.ndarray  #: (..., words) uint16; words that the low precision does not need are 0
    moved: np.ndarray  #: (..., words) uint16; 0 where nothing moved
    n_high: np.ndarray  #: uint16
    n_low: np.ndarray  #: uint16
    high: np.ndarray  #: (..., page_bytes / 2) uint16
    low: np.ndarray
    tokens_written: int
    requantized: int
    pruned: int


class KvCompressor(Stepped):
    """One KV head with a page for each precision. An operation is `requantize` where a token moves, then `write`."""

    name = "kv_compressor"

    def __init__(
        self, head_size: int = 64, high: str = "K8V4", low: str = "K4V2", page_bytes: int = 384, preset: str = "paper"
    ) -> None:
        """head_size, page_bytes: of the pages. high, low: ready pairs. preset: of the codes, one of affine.PRESETS."""
        require_choice(preset, PRESETS, self.name, "preset")
        self.pages = tuple(UnifiedPage(head_size, hetero_kv.find(pair), page_bytes) for pair in (high, low))
        self.head_size, self.high, self.low, self.page_bytes, self.preset = head_size, high, low, page_bytes, preset
        self.ports = ports({"head_size": head_size, "high": high, "low": low, "page_bytes": page_bytes})
        vector, image = (0,) * head_size, (0,) * (page_bytes // 2)
        written, moved = ((0,) * page.record_words for page in self.pages)
        self.state = State("reset", -1, 0, 0, 0, vector, vector, 0, 0, written, moved, 0, 0, image, image, 0, 0, 0)

    @property
    def busy(self) -> bool:
        """Whether the new token is still to be written."""
        return self.state.event == "requantize"

    def step(self, *inputs: Any) -> State:
        """With inputs (op, victim, low_slot, key, value, score, position): the first event. Without: the write.

        Refused: inputs while an operation is on its way, none while there is none, a slot that does not exist, an
        append to a full page, NaN and infinity.
        """
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the inputs of an operation'} now")
        if not inputs:
            self._write()
            return self.state
        op, victim, low_slot, key, value, score, position = self.accept(*inputs)
        require_finite(np.array([key, value]))
        self._require_slots(op, victim, low_slot)
        before = self.state
        self.state = replace(
            before,
            index=before.index + 1,
            op=op,
            victim=victim,
            low_slot=low_slot,
            key=key,
            value=value,
            score=score,
            position=position,
            written=(0,) * len(before.written),
            moved=(0,) * len(before.moved),
        )
        (self._requantize if op == REPLACE else self._write)()
        return self.state

    def _require_slots(self, op: int, victim: int, low_slot: int) -> None:
        """Refuse what the lengths and the pages do not allow."""
        state, (high, low) = self.state, self.pages
        if op in (REPLACE, DROP) and victim >= state.n_high:
            raise Refused(f"{self.name}: victim {victim}, {state.n_high} high tokens are stored")
        if op == REPLACE and low_slot > state.n_low:
            raise Refused(f"{self.name}: low_slot {low_slot}, {state.n_low} low tokens are stored")
        grows_low = op == APPEND_LOW or (op == REPLACE and low_slot == state.n_low)
        for grows, page, length in ((op == APPEND_HIGH, high, state.n_high), (grows_low, low, state.n_low)):
            if grows and length == page.tokens:
                raise Refused(f"{self.name}: slot {length}, page holds {page.tokens} {page.config.name} tokens")

    def _requantize(self) -> None:
        """Move the victim to the low page (D-leankv-30); a token that stood there is pruned."""
        before, (high, low) = self.state, self.pages
        images = np.array([before.high, before.low], np.uint16)
        requantize(high, low, self.preset, images, [(0, before.victim)], [(1, before.low_slot)])
        grows = before.low_slot == before.n_low
        self.state = replace(
            before,
            event="requantize",
            low=tuple(images[1].tolist()),
            n_low=before.n_low + grows,
            moved=tuple(low.read(images[1], before.low_slot).tolist()),
            requantized=before.requantized + 1,
            pruned=before.pruned + (not grows),
        )

    def _write(self) -> None:
        """Quantize the new token into its slot; that of a victim is taken at once (D-leankv-31)."""
        before, low = self.state, int(self.state.op == APPEND_LOW)
        page, appends = self.pages[low], before.op in (APPEND_HIGH, APPEND_LOW)
        slot = (before.n_low if low else before.n_high) if appends else before.victim
        images = np.array([before.high, before.low], np.uint16)
        key, value = (fp16.values(np.array([pattern])) for pattern in (before.key, before.value))
        write(
            page,
            self.preset,
            images,
            [low],
            [slot],
            key,
            value,
            np.array([before.score], np.uint32).view(np.float32),
            [before.position],
        )
        record = page.read(images[low], slot).tolist()
        self.state = replace(
            before,
            event="write",
            written=(*record, *(0,) * (len(before.written) - len(record))),
            high=tuple(images[0].tolist()),
            low=tuple(images[1].tolist()),
            n_high=before.n_high + (before.op == APPEND_HIGH),
            n_low=before.n_low + low,
            tokens_written=before.tokens_written + 1,
            pruned=before.pruned + (before.op == DROP),
        )

    def steps(
        self,
        op: Any,
        victim: Any,
        low_slot: Any,
        key: Any,
        value: Any,
        score: Any,
        position: Any,
    ) -> Iterator[State]:
        """Yield the State after every event of one device; arguments (events,), and they broadcast beside lanes."""
        arrays = admit_events(self.name, self.ports.inputs, (op, victim, low_slot, key, value, score, position))
        if arrays[0].ndim != 1:
            raise RefusedType(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        return (
            f"KvCompressor(head_size={self.head_size}, high={self.high!r}, low={self.low!r}, "
            f"page_bytes={self.page_bytes}, preset={self.preset!r})"
        )


def require_finite(patterns: np.ndarray) -> None:
    """Refuse fp16 patterns of NaN and infinity (D-leankv-9)."""
    bad = np.asarray(patterns) & 0x7C00 == 0x7C00
    if bad.any():
        index = first_index(bad)
        raise Refused(f"kv_compressor: key and value must be finite fp16, got {int(patterns[index]):#06x}{at(index)}")


def run(op: Any, victim: Any, low_slot: Any, key: Any, value: Any, score: Any, position: Any, **config: Any) -> Result:
    """Every operation of one device or of many.

    op: 0 append to the high section, 1 to the low one, 2 move the victim to low_slot and take its slot, 3 take its
    slot. key, value: fp16 patterns (..., events, F). score: float32 pattern, position: int32. All (..., events), and
    they broadcast beside lanes; each device starts with empty pages. config: as for KvCompressor.
    Returns the Result, arrays of the common shape. Refuses slots that do not exist, NaN, infinity.
    Paper: [leankv §4, §6.1].
    """
    device = KvCompressor(**config)
    arrays = admit_events(device.name, device.ports.inputs, (op, victim, low_slot, key, value, score, position))
    shape, reset, states, counts = arrays[0].shape, device.state, list[State](), dict.fromkeys(COUNTERS, 0)
    flat = [array.reshape(prod(shape[:-1]), *array.shape[len(shape) - 1 :]) for array in arrays]
    for row in range(prod(shape[:-1])):
        device.state = reset
        states += [state for state in device.steps(*(array[row] for array in flat)) if state.event == "write"]
        counts = {name: counts[name] + getattr(device.state, name) for name in COUNTERS}
    fields: dict[str, Any] = {**collect(states, (*device.ports.outputs, *device.ports.state), shape), **counts}
    return Result(**fields)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    size = config.get("head_size", 64)
    pages = [UnifiedPage(size, hetero_kv.find(config[name]), config["page_bytes"]) for name in ("high", "low")]
    words = config["page_bytes"] // 2
    return Ports(
        inputs=(
            Port("op", 2, meaning="0 append high, 1 append low, 2 move the victim to low_slot, 3 drop the victim"),
            Port("victim", 16, meaning="high slot that the new token takes, of 2 and 3"),
            Port("low_slot", 16, meaning="low slot that the victim moves to, of 2"),
            Port("key", 16, size, encoding="f16", meaning="key of the new token"),
            Port("value", 16, size, encoding="f16", meaning="its value"),
            Port("score", 32, encoding="f32", meaning="what its score segment starts with"),
            Port("position", 32, signed=True, meaning="its position"),
        ),
        outputs=(
            Port("written", 16, pages[0].record_words, meaning="record of the new token"),
            Port("moved", 16, pages[1].record_words, meaning="record of the requantized token"),
            Port("n_high", 16, meaning="tokens of the high section"),
            Port("n_low", 16, meaning="tokens of the low section"),
        ),
        state=(Port("high", 16, words, meaning="the high page"), Port("low", 16, words, meaning="the low page")),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with slots that exist when their turn comes, and finite vectors."""
    device = KvCompressor(**config)
    return kv_compressor_cases.legal([page.tokens for page in device.pages], inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see kv_compressor_cases.py."""
    tokens = [page.tokens for page in KvCompressor(**config).pages]
    return kv_compressor_cases.cases(config, tokens, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="kv_compressor",
    paper="leankv §4, §6.1",
    meaning="tokens into pages, and from the high to the low precision",
    configs={name: Config(head_size=64, high="K8V4", low="K4V2", page_bytes=384, preset=name) for name in PRESETS},
    ports=ports,
    run=run,
    twin="refemu.units.kv_compressor_jit:run",
    unit_class=KvCompressor,
    timing="event",
    cases=cases,
    legal=legal,
    alternatives=choices("D-leankv-1", "preset", *PRESETS),
)
