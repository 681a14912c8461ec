"""Ports and counters of layer_step [leankv §6.1]."""

from refemu.units.leankv.generation_compressor import LARGEST, Policy
from refemu.units.leankv.page_manager import PageManager, Shape
from refemu.units.leankv.paged_attention import COUNTERS as ATTENTION
from refemu.units.leankv.paged_attention import Pages
from refemu.units.ports import Port, Ports

LOAD, ADMIT, STEP, FINISH = range(4)  #: Operations of the port `op`
OPERATIONS = ("load", "admit", "decide", "finish")  #: first event of each operation
NONE = 0  #: value of the port `section` if a head loads no token; else 1 more than the section
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
OUTPUTS = ("choice", "victim", "low_slot", "taken", "written", "moved", "out", "p", "scores")
#: Counters of a State, in a Result
COUNTERS = {
    **{name: PageManager.counters[name] for name in MANAGED},
    "share_divisions": "divisions of decisions: scores by their counts, means by their total",
    "comparisons": "candidates of argmin in decisions",
    "tokens_written": "tokens quantized and written: loaded ones and new ones",
    "requantized": "tokens moved from the high to the low section",
    "plan_words": "16-bit words of scores and positions read for decisions",
    "move_words": "16-bit words of high records read to move their tokens",
    "record_words": "16-bit words of records written",
    **{name: f"attention: {ATTENTION[counter]}" for name, counter in ATTENDED.items()},
}


def ports_of(layouts: Pages, shape: Shape, heads: int, policy: Policy) -> Ports:
    """Widths for `heads` query heads of a KV head, pages of these layouts and this manager."""
    kv_heads, requests = shape.entries, shape.slots if shape.slots > 1 else None
    high, low = layouts.sections
    tokens, features = shape.length * max(high.tokens, low.tokens), high.head_size
    most = LARGEST if policy != "algorithm1" else 0x3F80_0000
    return Ports(
        inputs=(
            Port("op", 2, meaning="0 load retained tokens, 1 admit a prompt, 2 generation step, 3 finish"),
            Port("prompt", 32, requests, most=shape.max_len, meaning="tokens of an admitted prompt"),
            Port("keep_high", 32, kv_heads, most=HELD, meaning="high tokens that a head retains of an admitted prompt"),
            Port("keep_low", 32, kv_heads, most=HELD, meaning="low tokens that a head retains of an admitted prompt"),
            Port(
                "section",
                2,
                kv_heads,
                most=2,
                meaning="section of a loaded token: 1 high, 2 low; 0 the head loads none",
            ),
            Port("score", 32, kv_heads, encoding="f32", least=0, most=LARGEST, meaning="score of a loaded token"),
            Port("position", 32, kv_heads, most=HELD, meaning="position of a loaded token"),
            Port("key", 16, kv_heads * features, encoding="f16", meaning="keys of a loaded or new token"),
            Port("value", 16, kv_heads * features, encoding="f16", meaning="values of a loaded or new token"),
            Port("q", 16, kv_heads * heads * features, encoding="f16", meaning="queries of a step, head by head"),
            Port("window", 32, least=1, most=HELD, meaning="W, of a step"),
            Port("thresholds", 32, 2, encoding="f32", least=0, most=most, meaning="T_l, T_h; or the two alphas"),
            *([_members(requests)] if requests else []),
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
            Port("seen", 32, requests, meaning="tokens so far; 0 without a request"),
            Port("stored", 32, 2 * kv_heads, meaning="tokens of every head, high and low"),
            Port("loaded", 32, 2 * kv_heads, meaning="tokens of the prompt that are in their pages"),
            Port("cells", 32, kv_heads * shape.length, signed=True, meaning="table of page ids"),
            Port("list_start", 32, meaning="place of the next free page"),
            Port("free", 32, meaning="free pages"),
        ),
    )


def _members(requests: int) -> Port:
    """Port that names the requests of an event; with one request there is none."""
    return Port("members", 1, requests, meaning="1 for a request that the event is for; a load does not read it")
