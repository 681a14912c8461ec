"""Ports, states and counters of head_step and layer_step: generation steps of the KV heads of a layer [leankv §6.1]."""

from dataclasses import dataclass

from refemu.units.leankv.generation_compressor import LARGEST, Policy
from refemu.units.leankv.page_manager import Shape
from refemu.units.leankv.paged_attention import COUNTERS as ATTENTION
from refemu.units.leankv.paged_attention import Pages
from refemu.units.ports import Lanes, Port, Ports

LOAD, ADMIT, STEP, FINISH = range(4)  #: Operations of the port `op`
NONE = 0  #: Value of the port `section` where a head loads no token; else 1 more than the section
HELD = (1 << 31) - 1  #: largest position, and largest number of tokens

#: counter of a State -> that of the page manager
MANAGED = {name: name for name in ("allocated", "recycled", "levels", "adds", "pruned")}
#: counter of a State -> that of generation_compressor
DECIDED = {"share_divisions": "divisions", "comparisons": "comparisons"}
#: counter of a State -> that of kv_compressor
WRITTEN = {name: name for name in ("tokens_written", "requantized")}
#: counter of a State -> that of paged_attention
ATTENDED = {{"pages": "pages_read", "divisions": "softmax_divisions"}.get(name, name): name for name in ATTENTION}
WORDS = ("plan_words", "move_words", "record_words")  #: counted by the step itself
#: Counters of a State, in a Result
COUNTERS = (*MANAGED, *DECIDED, *WRITTEN, *WORDS, *ATTENDED)
OUTPUTS = ("choice", "victim", "low_slot", "taken", "written", "moved", "out", "p", "scores")


@dataclass(frozen=True)
class StepState:
    """Ports and registers after one event, and what happened since reset. H KV heads, one after the other in a port."""

    event: (
        str  #: "reset", "admit", "load", "finish"; "decide", "allocate"; "requantize", "write" and those of attention
    )
    index: int  #: number of the operation, -1 for the reset
    op: int  #: operation
    prompt: int  #: tokens of an admitted prompt
    keep_high: Lanes  #: high tokens that heads keep of it
    keep_low: Lanes  #: low ones
    section: Lanes  #: of a loaded token, plus 1; 0 = none
    score: Lanes  #: pattern, of a loaded token
    position: Lanes  #: of a loaded token
    key: tuple[int, ...]  #: fp16 words
    value: tuple[int, ...]  #: fp16 words
    q: tuple[int, ...]  #: fp16 words, query head by query head
    window: int  #: W
    thresholds: tuple[int, int]  #: patterns
    choice: Lanes  #: decision
    victim: Lanes  #: high slot that the new token takes
    low_slot: Lanes  #: low slot that the victim moves to; -1 = none
    taken: tuple[int, ...]  #: pages that heads take, high and low; -1 = none
    written: tuple[int, ...]  #: records of loaded or new tokens
    moved: tuple[int, ...]  #: records of requantized tokens
    out: tuple[int, ...]  #: fp16 words
    p: Lanes  #: patterns
    scores: Lanes  #: patterns, after the step
    seen: int  #: tokens of the request so far; 0 = there is none
    stored: tuple[int, ...]  #: tokens of every head, high and low
    loaded: tuple[int, ...]  #: those of the prompt that are in their pages
    cells: Lanes  #: of the table, entry by entry
    list_start: int  #: place of the next free page
    free: int  #: pages
    head: int  #: KV head that the last event worked on
    pool: bytes  #: words of all pages
    manager: object  #: State of the page manager
    heads: tuple[object, ...]  #: States of the units of every KV head
    allocated: int  #: pages
    recycled: int  #: pages
    levels: int  #: of prefix sums
    adds: int  #: of prefix sums
    pruned: int  #: tokens that no page holds
    share_divisions: int  #: of decisions
    comparisons: int  #: candidates that argmin looked at
    tokens_written: int  #: loaded and new ones
    requantized: int  #: tokens moved to the low section
    plan_words: int  #: 16-bit words of scores and positions that decisions read
    move_words: int  #: of records that moved tokens are read from
    record_words: int  #: of records written
    pages_read: int  #: by attention
    key_words: int  #: read by attention, like the following
    key_meta_words: int  #: scales and zero points
    val_words: int  #: codes of values
    val_meta_words: int  #: scales and zero points
    score_words: int  #: scores
    pos_words: int  #: positions
    key_sectors: int  #: of 32 bytes that the warps' loads touch (D-leankv-58), like the following
    key_meta_sectors: int  #: scales and zero points
    val_sectors: int  #: codes of values
    val_meta_sectors: int  #: scales and zero points
    score_sectors: int  #: scores
    pos_sectors: int  #: positions
    macs: int  #: multiply-adds
    exps: int  #: exponentials
    softmax_divisions: int  #: of attention


def ports_of(layouts: Pages, shape: Shape, kv_heads: int, heads: int, policy: Policy) -> Ports:
    """Widths for `kv_heads` KV heads of `heads` query heads each, pages of these layouts and this manager."""
    high, low = layouts.sections
    tokens, features = shape.length * max(high.tokens, low.tokens), high.head_size
    most = LARGEST if policy != "algorithm1" else 0x3F80_0000
    return Ports(
        inputs=(
            Port("op", 2, meaning="0 load kept tokens, 1 admit a prompt, 2 generation step, 3 finish"),
            Port("prompt", 32, most=shape.max_len, meaning="tokens of an admitted prompt"),
            Port("keep_high", 32, kv_heads, most=HELD, meaning="high tokens that a head keeps of an admitted prompt"),
            Port("keep_low", 32, kv_heads, most=HELD, meaning="low ones"),
            Port("section", 2, kv_heads, most=2, meaning="of a loaded token: 1 high, 2 low; 0 the head loads none"),
            Port("score", 32, kv_heads, encoding="f32", least=0, most=LARGEST, meaning="score of a loaded token"),
            Port("position", 32, kv_heads, most=HELD, meaning="its position"),
            Port("key", 16, kv_heads * features, encoding="f16", meaning="keys of a loaded or new token"),
            Port("value", 16, kv_heads * features, encoding="f16", meaning="its values"),
            Port("q", 16, kv_heads * heads * features, encoding="f16", meaning="queries of a step, head by head"),
            Port("window", 32, least=1, most=HELD, meaning="W, of a step"),
            Port("thresholds", 32, 2, encoding="f32", least=0, most=most, meaning="T_l, T_h; or the two alphas"),
        ),
        outputs=(
            Port("choice", 4, kv_heads, meaning="decision, as of generation_compressor"),
            Port("victim", 32, kv_heads, meaning="high slot that the new token takes"),
            Port("low_slot", 32, kv_heads, signed=True, meaning="low slot that the victim moves to, or -1"),
            Port("taken", 32, 2 * kv_heads, signed=True, meaning="page that a head takes, high and low; -1 for none"),
            Port("written", 16, kv_heads * high.record_words, meaning="record of the loaded or new token"),
            Port("moved", 16, kv_heads * low.record_words, meaning="record of the requantized token"),
            Port("out", 16, kv_heads * heads * features, encoding="f16", meaning="attention, head by head"),
            Port("p", 32, kv_heads * heads * tokens, encoding="f32", meaning="probabilities: high, low slots"),
            Port("scores", 32, kv_heads * tokens, encoding="f32", meaning="scores after the step: high, low slots"),
        ),
        state=(
            Port("seen", 32, meaning="tokens so far; 0 without a request"),
            Port("stored", 32, 2 * kv_heads, meaning="tokens of every head, high and low"),
            Port("loaded", 32, 2 * kv_heads, meaning="tokens of the prompt that are in their pages"),
            Port("cells", 32, kv_heads * shape.length, signed=True, meaning="table of page ids"),
            Port("list_start", 32, meaning="place of the next free page"),
            Port("free", 32, meaning="free pages"),
        ),
    )
