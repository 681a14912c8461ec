"""LeanKV's memory: calls of the manager and how their cost grows, page reads, attention over pages against fp16."""

from collections import deque
from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs, size
from benchmarks.rows.arith import normal
from refemu.formats import K4V2, K8V4, UnifiedPage
from refemu.formats.leankv.compiled import kv_page as kv_page_compiled
from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.leankv.page_manager.compiled import PageManager
from refemu.units.leankv.paged_attention import Pages
from refemu.units.leankv.paged_attention import compiled as paged_attention_compiled

GROWTH = ((1, 30, 3), (8, 30, 3), (1, 32, 32), (16, 32, 32))  #: requests, layers, heads


class Lists:
    """The same growth by lists: one deque of ids and a list of pages for every head."""

    def __init__(self, heads: int, per_page: int, tokens: int) -> None:
        self.free, self.per_page = deque(range(heads * 64)), per_page
        self.pages = [[self.free.popleft() for _ in range(-(-tokens // per_page))] for _ in range(heads)]
        self.tokens = [tokens] * heads

    def step(self) -> int:
        """One token more in every head."""
        for head, pages in enumerate(self.pages):
            if self.tokens[head] == len(pages) * self.per_page:
                pages.append(self.free.popleft())
            self.tokens[head] += 1
        return len(self.free)


def steps() -> list[Row]:
    """A generation step of all heads: every section grows, a page now and then."""
    return [step_row(*sizes) for sizes in size(GROWTH, GROWTH[:1])]


def step_row(requests: int, layers: int, heads: int) -> Row:
    """One token more for each request, in every head of every layer."""
    count, names = requests * layers * heads, range(requests)
    manager = PageManager(
        pages=count * 64, layers=layers, heads=heads, high_tokens=54, low_tokens=96, max_len=1 << 20, slots=requests
    )
    manager.prompt_allocate(dict.fromkeys(names, 100))
    none = np.zeros((requests, layers, heads), np.int64)
    manager.prompt_release(names, none + 100, none)
    lists = Lists(count, 54, 100)

    def step() -> int:
        if manager.free < count:  # a long run of samples
            manager.finish(names)
            manager.prompt_allocate(dict.fromkeys(names, 100))
            manager.prompt_release(names, none + 100, none)
        manager.step_allocate(names, none + 1, none)
        return manager.free

    def rival() -> int:
        if len(lists.free) < count:
            lists.__init__(count, 54, 100)  # type: ignore[misc]
        return lists.step()

    return pairs(
        "LEANKV-STEP",
        f"step of {requests} requests, {layers} x {heads} heads",
        "Python lists",
        rival,
        step,
        lambda theirs, ours: ours > 0,
    )


def operations() -> list[Row]:
    """Allocations and recycles of four pages by the readable list, against a deque."""
    pages, ids = FreePageList(4096), deque(range(4096))

    def ours() -> None:
        for _ in range(100):
            pages.recycle(pages.allocate(4))

    def rival() -> None:
        for _ in range(100):
            ids.extend([ids.popleft() for _ in range(4)])

    return [
        pairs(
            "LEANKV-LIST",
            "100 times 4 pages from the list and back",
            "collections.deque",
            rival,
            ours,
            lambda theirs, mine: pages.free_ids() == list(ids) or pages.free == len(ids),
        )
    ]


def reads() -> list[Row]:
    """All tokens of a pool of full pages as records."""
    rows = []
    for pair in (K8V4, K4V2):
        page = UnifiedPage(64, pair)
        images = (np.arange(64 * page.size // 2) & 0xFFFF).astype(np.uint16).reshape(64, -1)
        ids, slots = np.repeat(np.arange(64), page.tokens), np.tile(np.arange(page.tokens), 64)
        rows.append(_read(page, images, ids, slots))
    return rows


def _read(page: UnifiedPage, images: np.ndarray, ids: np.ndarray, slots: np.ndarray) -> Row:
    words = page.slot_words
    return pairs(
        "LEANKV-READ",
        f"64 pages of {page.config.name}, {64 * page.tokens} tokens, to records",
        "NumPy fancy indexing",
        lambda: images[ids[:, None], words[slots]],
        lambda: kv_page_compiled.read(page, images, ids, slots),
        np.array_equal,
    )


def attention() -> list[Row]:
    """One token of one layer over a cache in pages, against NumPy on an fp16 cache, which reads 2.3 times the bytes."""
    return [attention_row(*sizes) for sizes in ((512, 0.0), (512, 0.5), (2048, 0.0), (2048, 0.5))]


def attention_row(tokens: int, low_share: float, heads: int = 3, group: int = 3, features: int = 64) -> Row:
    """One query of each of `group` heads per KV head over `tokens` tokens, `low_share` of them in low precision."""
    pages = Pages(UnifiedPage(features, K8V4), UnifiedPage(features, K4V2))
    counts = tokens - int(tokens * low_share), int(tokens * low_share)
    used = [-(-count // page.tokens) for count, page in zip(counts, pages.sections, strict=True)]
    cells = np.arange(heads * (used[0] + used[1])).reshape(heads, -1).astype(np.int32)
    images = np.zeros((cells.size, pages.high.size // 2), np.uint16)
    key, value = (normal((heads, tokens, features), seed).astype(np.float16) for seed in (1, 2))
    for head in range(heads):
        for section, (count, page) in enumerate(zip(counts, pages.sections, strict=True)):
            part = slice(section * counts[0], section * counts[0] + count)
            encoded = page.config.key().encode(key[head, part]), page.config.value().encode(value[head, part])
            records = page.record(*encoded)
            index = np.arange(count)
            entry = cells[head] if section == 0 else cells[head, ::-1]
            kv_page_compiled.write(page, images, entry[index // page.tokens], index % page.tokens, records)
    q = normal((heads, group, features), 3).astype(np.float16)
    lengths, scale = np.tile(counts, (heads, 1)), np.float32(1 / np.sqrt(features))

    def rival() -> np.ndarray:
        logits = np.matmul(q.astype(np.float32), key.astype(np.float32).transpose(0, 2, 1)) * scale
        e = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.matmul(e / e.sum(axis=-1, keepdims=True), value.astype(np.float32)).astype(np.float16)

    return pairs(
        "LEANKV-ATTN",
        f"{tokens} tokens, {100 * low_share:.0f} % low, {heads} x {group} heads of {features}",
        "NumPy float32 on fp16 keys and values",
        rival,
        lambda: paged_attention_compiled.attend(pages, q, images, cells, lengths).out,
        lambda theirs, ours: bool(np.abs(theirs.astype(np.float64) - ours).max() < 0.25),
    )


ROWS: dict[str, Callable[[], list[Row]]] = {
    "LEANKV-STEP": steps,
    "LEANKV-LIST": operations,
    "LEANKV-READ": reads,
    "LEANKV-ATTN": attention,
}
