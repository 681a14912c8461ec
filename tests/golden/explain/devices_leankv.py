"""Faulty devices of LeanKV's units, as hardware teams make them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp32 import exp32
from refemu.golden.files.sets import Golden
from refemu.units.declaration import Changes
from refemu.units.leankv.page_manager import PageManager
from refemu.units.leankv.paged_attention import PagedAttention
from refemu.units.leankv.paged_attention.ports import patterns
from refemu.units.stepping import Stepped
from refemu.units.variant import Variant
from tests.golden.explain import hands
from tests.golden.explain.collection import Arrays, Wrong, decided, names, outputs
from tests.golden.explain.hands import in_lane, plus, ran, wired
from tests.golden.explain.model_leankv import pages, prefix, prompts, quantizer, raised, significance

DEAD = "lane|bit_stuck|width"


def devices() -> Iterator[Wrong]:
    """All devices."""
    yield from quantizers()
    yield from compressors()
    yield from tokens()
    yield from lists()
    yield from attention()
    yield from inside()
    yield from steps()


def quantizers() -> Iterator[Wrong]:
    """kv_quantizer."""
    name = "kv_quantizer-paper"
    yield Wrong(name, "codes halfway go up", names("D-leankv-5|rounding"), partial(quantizer, codes="up"))
    yield Wrong(name, "codes are truncated", names("D-leankv-5|rounding"), partial(quantizer, codes="cut"))
    yield Wrong(
        name, "the minimum is stored", names("D-leankv-1|sign|bit_inverted"), partial(quantizer, zero="minimum")
    )
    yield Wrong(name, "reciprocal", names("D-leankv-2"), partial(quantizer, reciprocal=True))
    yield Wrong(name, "codes of the stored step", names("D-leankv-3"), partial(quantizer, stored=True))
    yield Wrong(
        name, "feature 0 is in the highest bits", names("D-leankv-11|lane_permutation"), partial(quantizer, high=True)
    )
    yield Wrong(name, "the step is cut off", names("D-arith-2|rounding"), partial(quantizer, ties="cut"))
    yield Wrong(name, "a step beyond fp16 is 65504", names("D-leankv-7|saturate"), partial(quantizer, top="max"))
    yield Wrong(
        name,
        "codes halfway go up, the minimum is stored",
        names("D-leankv-5|rounding", "D-leankv-1|sign|bit_inverted"),
        partial(quantizer, codes="up", zero="minimum"),
    )
    yield Wrong(
        name,
        "codes are truncated, of the stored step, the minimum is stored",
        names("D-leankv-5|rounding", "D-leankv-3", "D-leankv-1|sign|bit_inverted"),
        partial(quantizer, codes="cut", stored=True, zero="minimum"),
    )
    yield Wrong(
        name, "bytes of words", names("byte_swap|D-leankv-11"), partial(wired, words=lambda words: words.byteswap())
    )
    yield Wrong(name, "scale a row late", names("row_shift"), partial(wired, scale=hands.late))
    yield Wrong(name, "status bits 1 and 2 crossed", names("bit_swap"), partial(wired, status=hands.swapped_bits(1, 2)))
    yield Wrong(name, "ends exchanged", names("port_swap"), _ends)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, scale=hands.seventh))
    yield Wrong(name, "one wrong row", (), partial(wired, zero=hands.single))


def _ends(golden: Golden) -> Arrays:
    answers = outputs(golden)
    return {**answers, "out.mn": answers["out.mx"], "out.mx": answers["out.mn"]}


def compressors() -> Iterator[Wrong]:
    """kv_compressor, prompt_compressor, generation_compressor."""
    name = "kv_compressor-paper"
    yield Wrong(
        name, "bytes of moved", names("byte_swap|D-leankv-11"), partial(wired, moved=lambda words: words.byteswap())
    )
    swapped = partial(ran, change=lambda inputs: {"key": inputs["value"], "value": inputs["key"]})
    yield Wrong(name, "key and value exchanged", names("port_swap"), swapped)
    yield Wrong(name, "moved a row late", names("row_shift"), partial(wired, moved=hands.late))
    high = partial(wired, written=_high_words_first, moved=_high_words_first)
    yield Wrong(name, "score and position have their high words first", names("D-leankv-15|lane_permutation"), high)
    yield Wrong(
        name,
        "high words first, n_low from 1",
        names("D-leankv-15|lane_permutation", "constant"),
        partial(wired, written=_high_words_first, moved=_high_words_first, n_low=plus(1)),
    )
    negated = partial(ran, change=lambda inputs: {"key": inputs["key"] ^ np.uint16(0x8000)})
    yield Wrong(name, "keys negated", names("sign|bit_inverted"), negated)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, written=hands.seventh))
    name = "prompt_compressor-odd"
    yield Wrong(name, "what meets a threshold is below", names("D-leankv-22"), partial(prompts, strict=False))
    yield Wrong(name, "low tokens count from 0", names("D-leankv-21"), partial(prompts, restart=True))
    yield Wrong(name, "the later of equal shares goes first", names("D-leankv-23"), partial(prompts, ties="last"))
    yield Wrong(name, "the window is a token shorter", (), partial(prompts, cut=True))
    yield Wrong(
        name,
        "what meets a threshold is below, low tokens count from 0",
        names("D-leankv-22", "D-leankv-21"),
        partial(prompts, strict=False, restart=True),
    )
    yield Wrong(name, "numbers exchanged", names("port_swap"), _numbers)
    yield Wrong(name, "positions from 1", names("constant"), partial(wired, order=plus(1)))
    yield Wrong(name, "class of token 3 stale", names("row_shift"), partial(wired, cls=in_lane(3, hands.late)))
    yield Wrong(name, "scrambled rows", (), partial(wired, order=hands.scrambled))
    name = "generation_compressor-paper"
    below = partial(ran, change=lambda inputs: {"thresholds": raised(inputs["thresholds"])})
    yield Wrong(name, "what equals a threshold is below", names("D-leankv-27"), below)
    yield Wrong(name, "running sums", names("D-leankv-27"), partial(ran, score_rule="cumulative"))
    yield Wrong(name, "deltas exchanged", names("port_swap"), _deltas)
    backwards = partial(ran, change=lambda inputs: {"score": inputs["score"][..., ::-1]})
    yield Wrong(name, "scores reversed", names("lane_permutation"), backwards)
    yield Wrong(
        name,
        "running sums, victim from 1",
        names("D-leankv-27", "constant"),
        lambda golden: wired(golden, ran(golden, score_rule="cumulative"), victim=plus(1)),
    )
    yield Wrong(name, "low_slot a row late", names("row_shift"), partial(wired, low_slot=hands.late))
    yield Wrong(name, "one wrong row", (), partial(wired, victim=hands.single))
    name = "generation_compressor-wide"
    yield Wrong(name, "running sums", names("D-leankv-27"), partial(ran, score_rule="cumulative"))


def _high_words_first(words: np.ndarray) -> np.ndarray:
    return np.concatenate([words[:, :-4], words[:, [-3, -4, -1, -2]]], axis=1)


def _numbers(golden: Golden) -> Arrays:
    answers = outputs(golden)
    return {**answers, "out.n_low": answers["out.n_high"], "out.n_high": answers["out.n_low"]}


def _deltas(golden: Golden) -> Arrays:
    answers = outputs(golden)
    return {**answers, "out.delta_low": answers["out.delta_high"], "out.delta_high": answers["out.delta_low"]}


def tokens() -> Iterator[Wrong]:
    """significance."""
    name = "significance-paper"
    yield Wrong(name, "a token's own query counts", names("D-leankv-17"), partial(significance, itself=True))
    yield Wrong(name, "mean of the heads", names("D-leankv-19"), partial(significance, joined="mean"))
    yield Wrong(name, "shares are means", names("D-leankv-18|port_swap"), partial(significance, normalize=False))
    yield Wrong(name, "reciprocals", names("D-arith-2"), partial(significance, reciprocal=True))
    yield Wrong(
        name,
        "own query, mean of the heads",
        names("D-leankv-17", "D-leankv-19"),
        partial(significance, itself=True, joined="mean"),
    )
    yield Wrong(
        name,
        "own query, mean of the heads, shares are means",
        names("D-leankv-17", "D-leankv-19", "D-leankv-18|port_swap"),
        partial(significance, itself=True, joined="mean", normalize=False),
    )
    reversed_ = partial(wired, share=lambda words: words[:, ::-1])
    yield Wrong(name, "shares reversed", names("lane_permutation"), reversed_)
    yield Wrong(name, "count of token 0 one more", names("constant"), partial(wired, count=in_lane(0, plus(1))))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, share=hands.seventh))


def lists() -> Iterator[Wrong]:
    """prefix_sum, free_page_list, page_table, page_manager."""
    name = "prefix_sum-paper"
    yield Wrong(name, "exclusive", names("D-leankv-39"), partial(prefix, exclusive=True))
    yield Wrong(name, "saturates", names("D-leankv-39|saturate"), partial(prefix, top="saturate"))
    yield Wrong(name, "without base", names("D-leankv-39|lane|bit_stuck|width"), partial(prefix, base=False))
    yield Wrong(name, "exclusive, saturates", names("D-leankv-39"), partial(prefix, exclusive=True, top="saturate"))
    narrow = partial(wired, inclusive=lambda words: words & 0xFFFF)
    yield Wrong(name, "16 bits", names("width|bit_stuck"), narrow)
    yield Wrong(name, "last lane stale", names("row_shift"), partial(wired, inclusive=in_lane(7, hands.late)))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, inclusive=hands.seventh))
    name = "free_page_list-small"
    yield Wrong(name, "list_end is behind the last id", names("D-leankv-37"), partial(pages, behind=True))
    yield Wrong(name, "the last ids leave first", names("D-leankv-37"), partial(pages, last=True))
    yield Wrong(name, "ids from 1", (), partial(pages, first=1))
    yield Wrong(
        name,
        "taken from 1",
        names("constant"),
        partial(wired, taken=lambda words: np.where(words == words.max(), words, words + 1)),
    )
    yield Wrong(name, "list_start wraps a place early", (), partial(pages, short=True))
    yield Wrong(name, "list_start a row late", names("row_shift"), partial(wired, list_start=hands.late))
    yield Wrong(
        name,
        "list_end is behind the last id, free a row late",
        names("D-leankv-37", "row_shift"),
        lambda golden: wired(golden, pages(golden, behind=True), free=hands.late),
    )
    yield Wrong(name, "one wrong row", (), partial(wired, free=hands.single))
    name = "page_table-paper"
    yield Wrong(name, "counts exchanged", names("port_swap"), _counts)
    yield Wrong(name, "page is one more", names("constant"), partial(wired, page=plus(1)))
    yield Wrong(name, "ids reversed", names("lane_permutation"), partial(wired, ids=lambda words: words[:, ::-1]))
    yield Wrong(name, "page a row late", names("row_shift"), partial(wired, page=hands.late))
    yield Wrong(name, "first of the ids stale", names("row_shift"), partial(wired, ids=in_lane(0, hands.late)))
    yield Wrong(
        name,
        "counts exchanged, page is one more",
        names("port_swap", "constant"),
        lambda golden: wired(golden, _counts(golden), page=plus(1)),
    )
    yield Wrong(name, "scrambled rows", (), partial(wired, ids=hands.scrambled))
    name = "page_manager-paper"
    yield Wrong(name, "pages are reserved", names("D-leankv-35"), partial(ran, reserve_low=1))
    yield Wrong(name, "list_end is behind the last page", names("D-leankv-37"), partial(wired, list_end=_behind))
    yield Wrong(name, "regions exclusive", names("D-leankv-39"), _exclusive)
    yield Wrong(name, "prefix a row late", names("row_shift"), partial(wired, prefix=hands.late))
    yield Wrong(name, "bounds exchanged", names("port_swap"), _bounds)
    yield Wrong(
        name,
        "pages are reserved, list_end is behind the last page",
        names("D-leankv-35", "D-leankv-37"),
        lambda golden: wired(golden, ran(golden, reserve_low=1), list_end=_behind),
    )
    yield Wrong(
        name, "page ids one more", names("constant"), partial(wired, ids=lambda words: words + (words < 1 << 31))
    )
    yield Wrong(name, "scrambled rows", (), partial(wired, ids=hands.scrambled))


def _counts(golden: Golden) -> Arrays:
    answers = outputs(golden)
    return {**answers, "out.high_pages": answers["out.low_pages"], "out.low_pages": answers["out.high_pages"]}


def _behind(words: np.ndarray) -> np.ndarray:
    return (words + 1) % 32


def _exclusive(golden: Golden, base: Arrays | None = None) -> Arrays:
    answers = base or outputs(golden)
    answers["out.prefix"] = answers["out.prefix"] - answers["out.counts"]
    return answers


def _bounds(golden: Golden) -> Arrays:
    answers = outputs(golden)
    return {**answers, "out.list_start": answers["out.list_end"], "out.list_end": answers["out.list_start"]}


def attention() -> Iterator[Wrong]:
    """paged_attention."""
    name = "paged_attention-paper"
    yield Wrong(name, "not fused", names("D-leankv-42|fused"), partial(ran, fma=False))
    yield Wrong(name, "in the order of tokens", names("D-leankv-41|order"), partial(ran, order="sequential"))
    yield Wrong(name, "a token's own attention counts", names("D-leankv-17"), partial(ran, include_self=True))
    yield Wrong(
        name,
        "not fused, a token's own attention counts",
        names("D-leankv-42|fused", "D-leankv-17"),
        partial(ran, fma=False, include_self=True),
    )
    yield Wrong(
        name,
        "not fused, in the order of tokens, reciprocal",
        names("D-leankv-42|fused", "D-leankv-41|order", "D-leankv-45"),
        partial(ran, fma=False, order="sequential", softmax_div="recip_mul"),
    )
    heads = partial(wired, out=lambda words: np.concatenate([words[:, 64:], words[:, :64]], axis=1))
    yield Wrong(name, "heads of out exchanged", names("lane_permutation"), heads)
    yield Wrong(name, "score a row late", names("row_shift"), partial(wired, score=hands.late))
    yield Wrong(name, "bytes of out", names("byte_swap"), partial(wired, out=lambda words: words.byteswap()))
    yield Wrong(name, "feature 5 dead", names(DEAD), partial(wired, out=in_lane(5, np.zeros_like)))
    yield Wrong(
        name,
        "not fused, heads of out exchanged",
        names("D-leankv-42|fused", "lane_permutation"),
        lambda golden: heads(golden, ran(golden, fma=False)),
    )
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, out=hands.seventh))


def inside() -> Iterator[Wrong]:
    """Stages of paged_attention, sections of kv_compressor, events inside the calls of page_manager."""
    name = "paged_attention-f128"
    yield Wrong(name, "128 threads sum the exponentials", names("D-leankv-56|order"), partial(ran, sum_threads=128))
    name = "paged_attention-narrow"
    reciprocal = partial(ran, warps=4, softmax_div="recip_mul")
    yield Wrong(name, "4 warps, reciprocal", names("D-leankv-56", "D-leankv-45"), reciprocal)
    yield Wrong(name, "the maximum is that of the pages so far", (), made(Online))
    yield Wrong(name, "scores take probabilities of fp16", (), made(Halved))
    yield Wrong(name, "4 warps, the p of a head a row late", names("D-leankv-56", "row_shift"), _late_of_four)
    name = "kv_compressor-pages"
    dropped = partial(ran, change=lambda inputs: {"victim": inputs["victim"] % 2})
    yield Wrong(name, "the number of a victim's page is dropped", (), dropped)
    last = partial(wired, n_high=lambda words: np.where(words > 2, words - 2, words))
    yield Wrong(name, "n_high is the tokens of the last page", (), last)
    cut = partial(wired, written=_high_words_first, n_low=hands.late)
    yield Wrong(name, "high words first, n_low a row late", names("D-leankv-15|lane_permutation", "row_shift"), cut)
    name = "page_manager-paper"
    yield Wrong(name, "the last level of a prefix sum is missing", (), _level_short)
    yield Wrong(name, "a split gives its pages back from the last", (), made(FromTheLast))
    name = "page_manager-diffkv"
    yield Wrong(
        name,
        "pages when a token needs them, regions exclusive",
        names("D-leankv-34", "D-leankv-39"),
        lambda golden: _exclusive(golden, ran(golden, lazy_pages=True)),
    )


def made(kind: type[Stepped[Any]]) -> Callable[[Golden], Arrays | None]:
    """Answers of another stepping class."""
    return partial(decided, [Variant("", "made by hand", unit_class=kind)])


class Online(PagedAttention):
    """Exponentials relative to the largest logit so far, page by page, scaled down by later pages."""

    def softmax(self) -> Changes:
        pages = self._chunks()[self.state.chunk]
        logits = self._stage("logits", self.heads, -1)
        e, top = np.zeros_like(logits), np.full(self.heads, -np.inf, np.float32)
        for page in pages:
            slots = slice(page.start, page.start + page.tokens)
            new = np.maximum(top, logits[:, slots].max(axis=1))
            e *= exp32(np.where(np.isinf(top), np.float32(0), top - new))[:, None]
            e[:, slots], top = exp32(logits[:, slots] - new[:, None]), new
        right, total = super().softmax(), np.zeros(self.heads, np.float32)
        for token in range(logits.shape[1]):
            total += e[:, token]
        return {**right, "chances": patterns(e / total[:, None])}


class Halved(PagedAttention):
    """Scores use p in fp16."""

    def score(self) -> Changes:
        p = self.state.p
        halves = fp16.to_f32(fp16.narrow(np.array(p, np.uint32).view(np.float32)))
        self.state = self.changed(p=patterns(halves))
        return {**super().score(), "p": p}


class FromTheLast(PageManager):
    """Pages of a released prompt, from the last to the first."""

    def _split(self, entry: int, high: int, low: int) -> list[int]:
        return super()._split(entry, high, low)[::-1]


def _late_of_four(golden: Golden) -> Arrays:
    return wired(golden, ran(golden, warps=4), p=hands.late)


def _level_short(golden: Golden) -> Arrays:
    """Sums of at most half of the regions, as of a network that ends a level early."""
    answers = outputs(golden)
    counts = answers["out.counts"].astype(np.int64)
    half = counts.shape[1] // 2
    answers["out.prefix"][:, half:] -= counts.cumsum(axis=1)[:, : counts.shape[1] - half].astype(np.uint32)
    return answers


def steps() -> Iterator[Wrong]:
    """One head alone, and a layer."""
    name = "layer_step-head"
    yield Wrong(name, "a token's own attention counts", names("D-leankv-17"), partial(ran, include_self=True))
    yield Wrong(name, "mean of the query heads is scored", names("D-leankv-19"), partial(ran, gqa="mean"))
    yield Wrong(name, "a page as soon as a section is full", names("D-leankv-34"), partial(ran, lazy_pages=False))
    exchanged = partial(ran, change=lambda inputs: {"key": inputs["value"], "value": inputs["key"]})
    yield Wrong(name, "keys and values exchanged", names("port_swap"), exchanged)
    yield Wrong(name, "bytes of moved", names("byte_swap"), partial(wired, moved=lambda words: words.byteswap()))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, out=hands.seventh))
    name = "layer_step-three"
    heads = partial(wired, taken=lambda words: words[:, [2, 3, 0, 1]])
    yield Wrong(name, "pages of the other head", names("lane_permutation"), heads)
    yield Wrong(name, "mean of the query heads is scored", names("D-leankv-19"), partial(ran, gqa="mean"))
    yield Wrong(name, "scores a row late", names("row_shift"), partial(wired, scores=hands.late))
    yield Wrong(name, "first feature dead", names(DEAD), partial(wired, out=in_lane(0, np.zeros_like)))
