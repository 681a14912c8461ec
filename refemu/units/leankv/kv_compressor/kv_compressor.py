"""The compressor of a KV cache: quantizes tokens into pages, and moves a token from the high to the low precision.

Paper: [leankv §4, §6.1, Fig. 8]. Composed of `KvQuantizer`, which encodes new tokens, and `formats.UnifiedPage`;
prompt_compressor and generation_compressor decide the places.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, reject
from refemu.formats import UnifiedPage
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.affine import PRESETS, WORD, Affine
from refemu.formats.leankv.hetero_kv import PairName
from refemu.formats.leankv.kv_layout import ALIGN
from refemu.formats.leankv.kv_page import PageTokens
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.leankv.kv_quantizer import BITS, KvQuantizer, Preset
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

APPEND_HIGH, APPEND_LOW, REPLACE, DROP = range(4)  #: Operations of the port `op`


class KvCompressor(Sequential):
    """KV compressor of one head: `requantize` if a token moves, then `write`. [leankv §4, §6.1, Fig. 8]

    Each section is a run of pages; slot r of a section is slot r % N of its page r // N (D-leankv-61). A missing slot,
    an append to a full page, NaN and infinity raise.
    """

    name = "kv_compressor"
    events: ClassVar[tuple[str, ...]] = ("requantize", "write")
    counters: ClassVar[dict[str, str]] = {
        "tokens_written": "new tokens quantized and written",
        "requantized": "tokens moved from the high to the low section",
        "pruned": "tokens whose slot was taken and that are no longer stored",
    }
    head_size: int = 64  #: features of a key and of a value
    high: PairName = "K8V4"  #: ready pair of precisions, such as "K8V4"
    low: PairName = "K4V2"  #: the low pair
    page_bytes: int = 384  #: bytes of a page
    preset: Preset = "paper"  #: preset of the codes
    high_pages: Annotated[int, 1, 1 << 16] = 1  #: pages of the high section, 1 to 65536
    low_pages: Annotated[int, 1, 1 << 16] = 1  #: pages of the low section, 1 to 65536
    k_vec: int = UnifiedPage.k_vec  #: constant of the pages, as for `UnifiedPage`; so are the following
    k_group: int = UnifiedPage.k_group
    v_vec: int = UnifiedPage.v_vec
    v_group: int = UnifiedPage.v_group
    align: tuple[int, int] = ALIGN  #: bytes

    @constant
    def pages(self) -> tuple[UnifiedPage, UnifiedPage]:
        """Layouts of a high and of a low page."""
        constants = {name: getattr(self, name) for name in ("k_vec", "k_group", "v_vec", "v_group", "align")}
        high, low = (
            UnifiedPage(self.head_size, hetero_kv.find(pair), self.page_bytes, **constants)
            for pair in (self.high, self.low)
        )
        return high, low

    @constant
    def counts(self) -> tuple[int, int]:
        """Pages of a high and of a low section."""
        return self.high_pages, self.low_pages

    @constant
    def ports(self) -> Ports:
        size, (page, low_page) = self.head_size, self.pages
        high, low = (count * (each.size // 2) for count, each in zip(self.counts, self.pages, strict=True))
        return Ports(
            inputs=(
                Port("op", 2, meaning="0 append high, 1 append low, 2 move the victim to low_slot, 3 drop the victim"),
                Port("victim", 16, meaning="high slot that the new token takes, for op 2 and 3"),
                Port("low_slot", 16, meaning="low slot that the victim moves to, for op 2"),
                Port("key", 16, size, encoding="f16", meaning="key of the new token"),
                Port("value", 16, size, encoding="f16", meaning="value of the new token"),
                Port("score", 32, encoding="f32", meaning="initial score of the new token"),
                Port("position", 32, signed=True, meaning="position of the new token"),
            ),
            outputs=(
                Port("written", 16, page.record_words, meaning="record of the new token"),
                Port("moved", 16, low_page.record_words, meaning="record of the requantized token"),
                Port("n_high", 16, meaning="tokens of the high section"),
                Port("n_low", 16, meaning="tokens of the low section"),
            ),
            state=(Port("high", 16, high, meaning="the high pages"), Port("low", 16, low, meaning="the low pages")),
        )

    @constant
    def _quantizers(self) -> dict[int, KvQuantizer]:
        """Quantizers by size of their groups, created on demand."""
        return {}

    @property
    def busy(self) -> bool:
        """Whether the new token is still to be written."""
        return self.state.event == "requantize"

    def _open(self, *inputs: Any) -> DeclaredState:
        """Every event, the first one too, reads the operation in the State."""
        self._require_slots(*inputs[:3])
        written, moved = ((0,) * page.record_words for page in self.pages)
        self._commit("write", inputs, {"written": written, "moved": moved})
        return self._continue()

    def follows(self) -> str:
        return "requantize" if self.state.op == REPLACE and self.state.event != "requantize" else "write"

    def _require_slots(self, op: int, victim: int, low_slot: int) -> None:
        """Reject what the lengths and the pages do not allow."""
        state, (high, low), (high_pages, low_pages) = self.state, self.pages, self.counts
        if op in (REPLACE, DROP) and victim >= state.n_high:
            raise Refused(f"{self.name}: victim must be below the {state.n_high} stored high tokens, got {victim}")
        if op == REPLACE and low_slot > state.n_low:
            raise Refused(f"{self.name}: low_slot must be at most the {state.n_low} stored low tokens, got {low_slot}")
        grows_low = op == APPEND_LOW or (op == REPLACE and low_slot == state.n_low)
        sections = (op == APPEND_HIGH, high, high_pages, state.n_high), (grows_low, low, low_pages, state.n_low)
        for grows, page, pages, length in sections:
            if grows and length == pages * page.tokens:
                what = "page holds" if pages == 1 else f"{pages} pages hold"
                raise Refused(f"{self.name}: slot {length}, {what} {pages * page.tokens} {page.config.name} tokens")

    def requantize(self) -> Changes:
        """Decode a high token and encode it in the low section; prune a token that was in its place."""
        before, images = self.state, self._images()
        self.put(images, APPEND_LOW, before.low_slot, self._lowered())
        grows = before.low_slot == before.n_low
        return {
            "low": tuple(images[1].ravel().tolist()),
            "n_low": before.n_low + grows,
            "moved": tuple(self.get(images, APPEND_LOW, before.low_slot).tolist()),
            "requantized": 1,
            "pruned": int(not grows),
        }

    def _images(self) -> tuple[np.ndarray, np.ndarray]:
        """Pages of both sections, (pages, words) each."""
        high, low = (np.array(words, np.uint16) for words in (self.state.high, self.state.low))
        return high.reshape(self.counts[0], -1), low.reshape(self.counts[1], -1)

    @decides("D-leankv-61")
    def place(self, section: int, slot: int) -> tuple[int, int]:
        """Number of a slot's page within its section, and slot in that page."""
        return divmod(slot, self.pages[section].tokens)

    def put(self, images: Sequence[np.ndarray], section: int, slot: int, record: np.ndarray) -> None:
        """Write a record into the pages (pages, words) of both sections."""
        page, place = self.place(section, slot)
        self.pages[section].write(images[section][page], place, record)

    def get(self, images: Sequence[np.ndarray], section: int, slot: int) -> np.ndarray:
        """Record of a slot."""
        page, place = self.place(section, slot)
        return self.pages[section].read(images[section][page], place)

    @decides("D-leankv-30")
    def _lowered(self) -> np.ndarray:
        """The low record of the victim, from its decoded codes."""
        token = self._victim()
        return self._record(
            self.pages[1], token.key.dequantize(), token.value.dequantize(), token.score, token.position
        )

    @decides("D-arith-2", "D-leankv-1", "D-leankv-2", "D-leankv-3", "D-leankv-5", "D-leankv-6", "D-leankv-7")
    def _victim(self) -> PageTokens:
        """The record of the victim in its high page."""
        record = self.get(self._images(), APPEND_HIGH, self.state.victim)
        return self.pages[0].tokens_of(record, self.preset)

    @decides("D-arith-2", "D-leankv-1", "D-leankv-2", "D-leankv-3", "D-leankv-5", "D-leankv-6", "D-leankv-7")
    def _record(self, page: UnifiedPage, key: Any, value: Any, score: Any, position: Any) -> np.ndarray:
        """The record of a token: codes and metadata of its vectors, unchanged score and position."""
        formats = page.config.key(self.preset), page.config.value(self.preset)
        return page.record_of(self._coded(formats[0], key), self._coded(formats[1], value), score, position)

    def _coded(self, fmt: Affine, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Packed codes and metadata of a vector: fp16 features group by group through the quantizer, others by the
        format."""
        size = x.size // max(fmt.groups, 1)
        if x.dtype != np.float16 or fmt.bits not in BITS or size % WORD:
            coded = fmt.encode(x)
            return coded.words(), coded.metadata()
        if size not in self._quantizers:
            self._quantizers[size] = KvQuantizer(size, self.preset)
        quantizer = self._quantizers[size]
        words, metadata, last = list[int](), list[int](), size * fmt.bits // WORD
        for state in quantizer.operations([fp16.bits(x).reshape(fmt.groups, size), np.full(fmt.groups, fmt.bits)]):
            if state.written == last:
                words += state.words[: state.written]
                metadata += [state.scale, state.zero]
        return np.array(words, np.uint16), np.array(metadata, np.uint16)

    @decides("D-leankv-30", "D-leankv-31")
    def _slot(self, images: Sequence[np.ndarray]) -> int:
        """Slot of the new token: after the others, or that of the victim."""
        state = self.state
        if state.op in (APPEND_HIGH, APPEND_LOW):
            return state.n_low if state.op == APPEND_LOW else state.n_high
        return state.victim

    def write(self) -> Changes:
        """Quantize the new token into its slot."""
        before, low, images = self.state, int(self.state.op == APPEND_LOW), self._images()
        slot = self._slot(images)
        key, value = (fp16.values(np.array(pattern, np.uint16)) for pattern in (before.key, before.value))
        score = np.array(before.score, np.uint32).view(np.float32)
        self.put(images, low, slot, self._record(self.pages[low], key, value, score, np.int32(before.position)))
        record = self.get(images, low, slot).tolist()
        return {
            "written": (*record, *(0,) * (len(before.written) - len(record))),
            "high": tuple(images[0].ravel().tolist()),
            "low": tuple(images[1].ravel().tolist()),
            "n_high": before.n_high + (before.op == APPEND_HIGH),
            "n_low": before.n_low + low,
            "tokens_written": 1,
            "pruned": int(before.op == DROP),
        }

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject vectors that are not finite."""
        require_finite(np.stack(inputs[3:5]))


@decides("D-leankv-9")
def require_finite(patterns: np.ndarray) -> None:
    """Reject fp16 patterns of NaN and infinity."""
    bad = np.asarray(patterns) & 0x7C00 == 0x7C00
    reject(bad, "kv_compressor: key and value must be finite fp16", patterns, ", got {:#06x}")


SMALL: dict[str, Any] = {"head_size": 64, "high": "K8V4", "low": "K4V2", "page_bytes": 384}

UNIT: AnyUnit = Unit(
    unit_class=KvCompressor,
    paper="leankv §4, §6.1",
    meaning="tokens into pages, and from the high to the low precision",
    configs={
        **{name: Config(**SMALL, preset=name) for name in PRESETS},
        "pages": Config(**SMALL, preset="paper", high_pages=2, low_pages=2),
    },
)
State: type[DeclaredState] = KvCompressor.State
run: RunFunction[Result] = UNIT.run
