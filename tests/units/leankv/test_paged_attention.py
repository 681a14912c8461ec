"""Attention over pages against an oracle of float32 operations one by one; its properties, and its errors."""

from fractions import Fraction
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith import fp16, prng, threads
from refemu.arith.checks import Refused, RefusedType
from refemu.formats.leankv import hetero_kv
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv import paged_attention
from refemu.units.leankv.paged_attention import DIFFKV, EPSILON, PAPER, Arithmetic, PagedAttention, Pages
from refemu.units.leankv.paged_attention import compiled as paged_attention_compiled
from refemu.units.leankv.paged_attention.configurations import NARROW
from tests.arith.strategies import codes, numbers, repeating
from tests.oracles import fp16 as fp16_oracle
from tests.oracles.leankv import attention, units

MODULES = [pytest.param(paged_attention, id="unit"), pytest.param(paged_attention_compiled, id="compiled")]
modules = pytest.mark.parametrize("module", MODULES)


def layouts(
    head_size: int = 64,
    high: str = "K8V4",
    low: str | None = "K4V2",
    size: int = 640,
    preset: str = "paper",
    **constants: Any,
) -> Pages:
    pair = [UnifiedPage(head_size, hetero_kv.find(name), size, **constants) for name in (high, low) if name]
    return Pages(pair[0], pair[1] if low else None, preset)


def bells(seed: int, *shape: int) -> np.ndarray:
    """Values of deviation about 1, in quarters of 2**-16."""
    count = int(np.prod(shape))
    words = (prng.words(seed, 0, 4 * count).reshape(count, 4) >> np.uint64(46)).astype(np.int64).sum(axis=1)
    return ((words - (1 << 19)) / np.float64(1 << 17)).reshape(shape).astype(np.float32)


class Seeded:
    """What a head consists of, from a seed: values, an order of page ids, and the words between the tokens."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def values(self, stream: int, *shape: int) -> np.ndarray:
        return bells(self.seed + stream, *shape)

    def order(self, stream: int, count: int) -> np.ndarray:
        return np.argsort(prng.words(self.seed + stream, 0, count), kind="stable")

    def rubbish(self, stream: int, count: int) -> np.ndarray:
        return (prng.words(self.seed + stream, 0, count) & np.uint64(0xFFFF)).astype(np.uint16)


class Drawn(Seeded):
    """The same from hypothesis."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def values(self, stream: int, *shape: int) -> np.ndarray:
        return self.data.draw(repeating(numbers, shape), f"values {stream}")

    def order(self, stream: int, count: int) -> np.ndarray:
        return np.array(self.data.draw(st.permutations(range(count)), "pages"))

    def rubbish(self, stream: int, count: int) -> np.ndarray:
        return self.data.draw(repeating(lambda words: codes(words, 16), count), "rubbish").astype(np.uint16)


class Head:
    """Tokens of one KV head in pages, and the same tokens decoded for the oracle."""

    def __init__(
        self,
        pages: Pages,
        counts: tuple[int, int],
        heads: int = 2,
        seed: int = 0,
        spare: int = 1,
        size: float = 1.0,
        source: Seeded | None = None,
    ) -> None:
        self.pages, self.counts = pages, counts
        source, features = source or Seeded(seed), pages.high.head_size
        self.q = fp16.to_f16(source.values(0, heads, features) * np.float32(size))
        used = [-(-count // page.tokens) for count, page in zip(counts, pages.sections, strict=True)]
        cells = used[0] + used[1] + spare
        self.cells, self.lengths = source.order(1, cells + 3)[:cells].astype(np.int32), np.array(counts)
        self.images = source.rubbish(2, (cells + 3) * pages.high.size // 2).reshape(cells + 3, -1)
        self.decoded: list[list[list[tuple[list[float], list[float]]]]] = []
        self.score = np.abs(source.values(5, counts[0] + counts[1]))
        for section, (count, page) in enumerate(zip(counts, pages.sections, strict=True)):
            key, value = (
                fmt.encode(fp16.to_f16(source.values(10 + 2 * section + side, count, features)))
                for side, fmt in enumerate((page.config.key(pages.preset), page.config.value(pages.preset)))
            )
            first = section * counts[0]
            records = page.record(key, value, self.score[first : first + count], np.arange(first, first + count))
            for index in range(count):
                page.write(self.images[self.cell(section, index // page.tokens)], index % page.tokens, records[index])
            tokens = list(zip(key.dequantize().tolist(), value.dequantize().tolist(), strict=True))
            self.decoded.append([tokens[i : i + page.tokens] for i in range(0, count, page.tokens)])

    def cell(self, section: int, number: int) -> int:
        return int(self.cells[number if section == 0 else len(self.cells) - 1 - number])

    def attend(self, module: Any, arithmetic: Arithmetic) -> tuple[list[list[int]], list[list[float]]]:
        made = module.attend(self.pages, self.q, self.images, self.cells, self.lengths, arithmetic)
        return made.out.view(np.uint16).tolist(), made.p.tolist()

    def options(self, arithmetic: Arithmetic) -> attention.Options:
        """The same for the oracle."""
        page = self.pages.high
        return attention.Options(
            arithmetic.order,
            arithmetic.fma,
            arithmetic.softmax_div == "recip_mul",
            arithmetic.softmax_eps,
            arithmetic.lane_max,
            page.k_group,
            page.v_vec,
            page.v_group,
            None,
            arithmetic.warps,
            arithmetic.sum_threads,
            arithmetic.key_threads,
            arithmetic.value_rows,
            arithmetic.value_slots,
            arithmetic.join == "sequential",
        )

    def chunks(self, arithmetic: Arithmetic) -> list[list[attention.Softmax]]:
        """Chunks of every query head, by the oracle."""
        size, options = self.pages.chunk(arithmetic), self.options(arithmetic)
        pages = self.decoded[0], self.decoded[1]
        queries = self.q.astype(np.float64).tolist()
        if not size or sum(self.counts) <= size:
            return [[attention.attend(q, *pages, options)] for q in queries]
        per_page = self.pages.high.tokens, self.pages.sections[1].tokens
        with mock.patch.object(attention, "chunk_tokens", lambda *_: size):  # its own size is 4,800 tokens or more
            return [attention.softmaxes(q, *pages, options, per_page) for q in queries]

    def expected(self, arithmetic: Arithmetic) -> tuple[list[list[int]], list[list[float]]]:
        """The oracle's results, cut into its chunks where there are more tokens than a partition."""
        size, options = self.pages.chunk(arithmetic), self.options(arithmetic)
        found = []
        for q in self.q.astype(np.float64).tolist():
            if size and sum(self.counts) > size:
                per_page = self.pages.high.tokens, self.pages.sections[1].tokens
                # its own size is 4,800 tokens or more
                with mock.patch.object(attention, "chunk_tokens", lambda *_: size):
                    found.append(attention.partitioned(q, self.decoded[0], self.decoded[1], options, per_page))
            else:
                made = attention.attend(q, self.decoded[0], self.decoded[1], options)
                found.append(([fp16_oracle.from_float(x) for x in made.out], made.p))
        return [out for out, _ in found], [p for _, p in found]

    def ports(self) -> dict[str, Any]:
        """The same on the ports of a unit with as many cells as the head has pages; no spare cells."""
        images = np.stack([self.images[page] for page in self.cells])
        words, count = self.q.view(np.uint16).ravel(), sum(self.counts)
        return {
            "q": words,
            "images": images.ravel(),
            "entry": np.arange(len(self.cells)),
            "n_high": self.counts[0],
            "n_low": self.counts[1],
            "newest": count - 1,
        }


SETTINGS = [
    pytest.param(PAPER, id="paper"),
    pytest.param(Arithmetic(fma=False), id="unfused"),
    pytest.param(Arithmetic(order="sequential"), id="sequential"),
    pytest.param(Arithmetic(order="sequential", fma=False), id="sequential unfused"),
    pytest.param(Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON), id="diffkv"),
    pytest.param(Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON, lane_max=True), id="lane_max"),
    pytest.param(Arithmetic(**NARROW), id="narrow"),
    pytest.param(Arithmetic(warps=16, sum_threads=4, key_threads=8, value_rows=8, value_slots=3), id="other block"),
]
SHAPES = [
    pytest.param(layouts(), (1, 0), id="one token"),
    pytest.param(layouts(), (4, 0), id="a full page"),
    pytest.param(layouts(), (13, 9), id="last pages of one token"),
    pytest.param(layouts(low=None, high="K4V4"), (23, 0), id="one precision"),
    pytest.param(layouts(high="K8V4_G12", low="K4V2_G24", size=1024, preset="diffkv"), (21, 17), id="groups"),
    pytest.param(layouts(high="K16V16", low="K8V8", size=1024), (8, 11), id="fp16"),
    pytest.param(layouts(128, "K8V8", "K4V1", 1024, "diffkv"), (21, 10), id="many pages, 128 features"),
    pytest.param(layouts(high="K4V4", low="K2V4", k_group=2), (9, 12), id="other constants"),
]


@cache
def known(pages: Pages, counts: tuple[int, int], arithmetic: Arithmetic) -> tuple[Head, Any]:
    """A head and what the oracle makes of it, once for unit and compiled form."""
    head = Head(pages, counts, seed=counts[0])
    return head, head.expected(arithmetic)


@modules
@pytest.mark.parametrize("arithmetic", SETTINGS)
@pytest.mark.parametrize(("pages", "counts"), SHAPES)
def test_every_bit_is_the_oracles(module: Any, pages: Pages, counts: tuple[int, int], arithmetic: Arithmetic) -> None:
    """D-leankv-41 (order), D-leankv-42 (fused), D-leankv-43 (maximum), D-leankv-44 (exp), D-leankv-45 (division)."""
    head, expected = known(pages, counts, arithmetic)

    assert head.attend(module, arithmetic) == expected


@modules
@pytest.mark.parametrize(
    "arithmetic",
    [
        Arithmetic(partition_tokens=1),
        Arithmetic(partition_tokens=1, fma=False),
        Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON, partition_tokens=1),
        Arithmetic(partition_tokens=1, warps=2, sum_threads=2, value_rows=1),
    ],
)
@pytest.mark.parametrize("counts", [(9, 0), (4, 4), (8, 17), (1, 40)])
def test_partitions_are_the_oracles(module: Any, arithmetic: Arithmetic, counts: tuple[int, int]) -> None:
    """D-leankv-46: chunks of eight tokens, each on its own, their outputs rounded to fp16 before they are combined."""
    head, expected = known(layouts(size=384), counts, arithmetic)

    assert head.pages.chunk(arithmetic) == 8
    assert head.attend(module, arithmetic) == expected


def test_partitions_of_the_published_code() -> None:
    """D-leankv-46: 5,760 tokens with pages of 32 and 60, 4,992 with 32 and 52; TL = TH without a low precision."""
    big, groups = layouts(128, size=6784), layouts(128, "K8V4_G12", "K4V2_G24", 6784)

    assert [pages.chunk(DIFFKV) for pages in (big, groups)] == [5760, 4992]
    assert Pages(big.high).chunk(DIFFKV) == 32 * 32 * 5
    assert big.chunk(PAPER) == 0


@modules
def test_quirk_weighs_by_the_token_number(module: Any) -> None:
    """`partition_score`: a last high chunk of four tokens shifts all low ones, whose p take the weight before."""
    arithmetic, quirk = (Arithmetic(partition_tokens=1, partition_score=flag) for flag in (False, True))
    head = Head(layouts(size=384), (12, 16), seed=4)
    right, wrong = (head.attend(module, a) for a in (arithmetic, quirk))

    assert right[0] == wrong[0]
    assert [a == b for a, b in zip(right[1][0], wrong[1][0], strict=True)].count(False) >= 8
    assert right[1][0][:12] == wrong[1][0][:12]


@modules
@given(
    counts=st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(any),
    size=st.sampled_from([0.0, 0.25, 1.0, 8.0]),
    settings_=st.sampled_from([case.values[0] for case in SETTINGS]),
    data=st.data(),
)
@settings(deadline=None, max_examples=15)
def test_drawn_heads_are_the_oracles(
    module: Any, counts: tuple[int, int], size: float, settings_: Any, data: st.DataObject
) -> None:
    head = Head(layouts(32, "K8V8", "K8V4", 384), counts, 1, size=size, source=Drawn(data))

    assert head.attend(module, settings_) == head.expected(settings_)


@modules
def test_page_ids_and_neighbours_do_not_matter(module: Any) -> None:
    """One request equals the batch; the same pages elsewhere in the pool give the same."""
    pages = layouts()
    first, second = Head(pages, (11, 9), seed=1, spare=0), Head(pages, (3, 20), seed=2, spare=0)
    length = max(len(first.cells), len(second.cells))
    pool = np.concatenate([first.images, second.images])
    entries = np.zeros((2, length), np.int32)
    for row, (head, base) in enumerate(((first, 0), (second, len(first.images)))):
        used = -(-head.counts[0] // 4)
        entries[row, :used] = head.cells[:used] + base
        entries[row, length - (len(head.cells) - used) :] = head.cells[used:] + base
    lengths = np.stack([first.lengths, second.lengths])
    batch = module.attend(pages, np.stack([first.q, second.q]), pool, entries, lengths)
    alone = [module.attend(pages, head.q, head.images, head.cells, head.lengths) for head in (first, second)]

    assert [out.tobytes() for out in batch.out] == [one.out.tobytes() for one in alone]
    assert batch.p.shape == (2, 2, 23) and not batch.p[0, :, 20:].any()
    assert batch.p[0, :, :20].tobytes() == alone[0].p.tobytes() and batch.p[1].tobytes() == alone[1].p.tobytes()


@modules
def test_outputs_are_near_the_exact_ones(module: Any) -> None:
    """Within 2^-10 of the largest value and 2^-25, by exact sums of the probabilities' rationals."""
    head = Head(layouts(), (13, 9), seed=8)
    out, p = head.attend(module, PAPER)
    values = [value for section in head.decoded for page in section for _, value in page]
    largest = max(abs(x) for value in values for x in value)
    for words, chances in zip(out, p, strict=True):
        assert abs(sum(map(Fraction, chances), Fraction(-1))) < Fraction(1, 1 << 20)
        for feature, word in enumerate(words):
            exact = sum(
                (Fraction(a) * Fraction(value[feature]) for a, value in zip(chances, values, strict=True)), Fraction(0)
            )
            error = abs(Fraction(fp16_oracle.to_float(word)) - exact)
            assert error <= Fraction(largest) / 1024 + Fraction(1, 1 << 25)


@modules
@pytest.mark.parametrize("gqa", ["max", "mean"])
@pytest.mark.parametrize("include_self", [False, True])
def test_scores_take_the_largest_probability_or_the_mean(module: Any, include_self: bool, gqa: str) -> None:
    """D-leankv-17, D-leankv-19: the newest token's score stays, or not; no other word of the pool changes."""
    head = Head(layouts(), (6, 9), heads=3, seed=5)
    newest, before = 4, head.images.copy()
    p = module.attend(head.pages, head.q, head.images, head.cells, head.lengths).p
    module.add_scores(head.pages, head.images, head.cells, head.lengths, p, newest, include_self, gqa)
    expected = units.step_scores(
        head.score.tolist(), p.tolist(), list(range(15)), newest, "diffkv" if include_self else "paper", gqa
    )
    found, changed = [], 0
    for section, (count, page) in enumerate(zip(head.counts, head.pages.sections, strict=True)):
        for index in range(count):
            found.append(page.score(head.images[head.cell(section, index // page.tokens)])[index % page.tokens])
    changed = int(np.count_nonzero(before != head.images))

    assert np.array(found, np.float32).tolist() == expected
    assert 0 < changed <= 2 * 15


def test_events_go_page_by_page() -> None:
    """[leankv §6.2] all keys, one softmax, all values; high pages, then low pages."""
    pages = layouts()
    head = Head(pages, (5, 9), seed=6, spare=0)
    cells = len(head.cells)
    device = PagedAttention(cells=cells)
    images = np.stack([head.images[page] for page in head.cells])
    states = list(device.steps(head.q.view(np.uint16).ravel(), images.ravel(), np.arange(cells), 5, 9, 13))

    assert [state.event for state in states] == ["key_page"] * 4 + ["softmax"] + ["value_page"] * 4 + ["tree", "score"]
    last = states[-1]
    assert list(last.out) == np.array(head.expected(PAPER)[0]).ravel().tolist()
    assert (last.pages, last.macs, last.exps, last.divisions) == (4, 2 * 64 * 14 * 2, 28, 28)
    words = last.key_words, last.key_meta_words, last.val_words, last.val_meta_words, last.score_words, last.pos_words
    assert words == (5 * 32 + 9 * 16, 28, 5 * 16 + 9 * 8, 28, 28, 28)
    assert 2 * sum(words) == 5 * 112 + 9 * 64  # [leankv Fig. 13]: the bytes of the tokens, no more


def test_step_out_of_turn_is_rejected() -> None:
    device = PagedAttention()
    with pytest.raises(Refused, match="step needs the inputs of an operation, got none"):
        device.step()


PAGES = layouts()
GOOD = Head(PAGES, (5, 3), seed=7)
BAD = [
    pytest.param(
        {"lengths": np.array([0, 0])}, Refused, "head: stored tokens must be at least 1, got 0", id="no token"
    ),
    pytest.param({"lengths": np.array([5, -1])}, Refused, "lengths must be at least 0", id="negative"),
    pytest.param({"q": GOOD.q.astype(np.float32)}, RefusedType, "q must be float16", id="q dtype"),
    pytest.param({"q": GOOD.q[:, :32]}, RefusedType, r"q must be float16 of shape \(..., heads, 64\)", id="head size"),
    pytest.param({"q": GOOD.q * np.float16(np.inf)}, Refused, "q must be finite", id="infinite q"),
    pytest.param({"lengths": np.array([5, 17])}, Refused, "head: cells must be at most 4, got 5", id="short table"),
    pytest.param(
        {"cells": GOOD.cells + np.int32(100)}, Refused, r"page must be in \[0, 7\), got \d+ in cell 0", id="page id"
    ),
    pytest.param({"cells": GOOD.cells * 1.0}, RefusedType, "cells must be integers", id="cells dtype"),
    pytest.param(
        {"images": GOOD.images[:, 1:].copy()},
        RefusedType,
        r"images must be uint16 of shape \(pages, 320\)",
        id="images",
    ),
]


@modules
@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_paged_attention_rejects_invalid_inputs(
    module: Any, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    operands = {"q": GOOD.q, "images": GOOD.images, "cells": GOOD.cells, "lengths": GOOD.lengths} | change
    with pytest.raises(error, match=message):
        module.attend(PAGES, **operands)


@modules
def test_low_tokens_need_a_low_precision(module: Any) -> None:
    with pytest.raises(Refused, match="low tokens without a low precision"):
        module.attend(Pages(PAGES.high), GOOD.q, GOOD.images, GOOD.cells, GOOD.lengths)


@pytest.mark.parametrize("run", [paged_attention.run, paged_attention_compiled.run], ids=["unit", "compiled"])
def test_page_in_two_cells_is_rejected(run: Any) -> None:
    with pytest.raises(Refused, match=r"head at index \(0,\): pages must differ, got page 1 in two cells"):
        run([0] * 128, [0] * 4 * 320, [1, 1, 0, 0], 5, 0, 0)


def test_metadata_may_be_infinite() -> None:
    """D-leankv-7: an infinite scale of a value gives infinity or NaN, the same in both forms; NaN is 0x7E00."""
    head = Head(layouts(), (3, 0), seed=9)
    page = head.pages.high
    words = page.slot_words[1, page.parts["val_meta"]]
    head.images[head.cell(0, 0), words[0]] = 0x7C00
    found = [head.attend(module.values[0], PAPER)[0] for module in MODULES]

    assert found[0] == found[1]
    assert {word & 0x7FFF for row in found[0] for word in row} <= {0x7C00, 0x7E00}


def test_paged_attention_repr() -> None:
    assert repr(PagedAttention()) == (
        "PagedAttention(head_size=64, high='K8V4', low='K4V2', page_bytes=640, preset='paper', k_vec=4, k_group=4, "
        "v_vec=2, v_group=8, align=(32, 128), order='kernel', fma=True, softmax_div='div', softmax_eps=0.0, "
        "lane_max=False, partition_tokens=0, partition_score=False, include_self=False, gqa='max', warps=8, "
        "sum_threads=256, key_threads=0, value_rows=0, value_slots=0, join='tree', heads=2, cells=4, stages=False)"
    )


@pytest.mark.parametrize("grain", [0, paged_attention_compiled.GRAIN])
@pytest.mark.parametrize(
    "arithmetic",
    [PAPER, Arithmetic(partition_tokens=1), Arithmetic(partition_tokens=1, partition_score=True, fma=False)],
    ids=["whole", "partitions", "quirk"],
)
def test_step_is_attention_and_scores_whatever_threads(
    monkeypatch: pytest.MonkeyPatch, grain: int, arithmetic: Arithmetic
) -> None:
    """Five KV heads over 1, 2 and 3 threads: one share each with a grain of 0, all together with the usual one."""
    monkeypatch.setattr(paged_attention_compiled, "GRAIN", grain)
    heads = [Head(layouts(size=384), counts, seed=7) for counts in ((9, 0), (4, 4), (8, 17), (1, 40), (3, 5))]
    most = max(len(head.cells) for head in heads)
    images = np.concatenate([head.images for head in heads])
    cells, first = np.zeros((5, most), np.int32), 0
    for row, head in enumerate(heads):
        high, low = (-(-count // page.tokens) for count, page in zip(head.counts, head.pages.sections, strict=True))
        cells[row, :high] = head.cells[:high] + first
        cells[row, most - low :] = head.cells[len(head.cells) - low :] + first
        first += len(head.images)
    q, lengths = np.stack([head.q for head in heads]), np.array([head.counts for head in heads])
    newest = lengths.sum(axis=-1) - 1
    pages = heads[0].pages
    expected = images.copy()
    out = paged_attention.step(pages, fp16.to_f32(q), expected, cells, lengths, newest, arithmetic)

    for count in (1, 2, 3):
        made = images.copy()
        with threads.using_threads(count):
            found = paged_attention_compiled.step(pages, fp16.to_f32(q), made, cells, lengths, newest, arithmetic)
        assert found.tobytes() == out.tobytes() and found.dtype == np.float32
        assert made.tobytes() == expected.tobytes() != images.tobytes()


@modules
def test_step_rejects_queries_that_are_not_finite(module: Any) -> None:
    head = Head(layouts(), (5, 0))
    q = fp16.to_f32(head.q)
    q[1, 3] = np.inf

    with pytest.raises(Refused, match=r"q must be finite, got inf at index \(1, 3\)"):
        module.step(head.pages, q, head.images, head.cells, head.lengths, 4)
