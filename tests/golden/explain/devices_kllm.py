"""Faulty devices of KLLM's units, as hardware teams make them."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.formats import KllmArith
from refemu.golden.files.sets import Golden
from tests.golden.explain import hands, model_kllm, model_kllm_lane, model_olive
from tests.golden.explain.collection import Arrays, Wrong, late, names
from tests.golden.explain.hands import in_lane, plus, ran, wired
from tests.golden.explain.model_kllm import chip, clustering, counter, function, matmul, multiply_add, pops, product

ROUNDING, SATURATES = "D-arith-2|rounding", "D-arith-2|saturate"
FLUSHES, FUSED = "D-arith-2|flush", "D-kllm-3|fused"


def devices() -> Iterator[Wrong]:
    """All devices."""
    yield from macs()
    yield from sums()
    yield from trees()
    yield from clusters()
    yield from indices()
    yield from products()
    yield from functions()
    yield from lane()


def macs() -> Iterator[Wrong]:
    """fp16_mac."""
    name = "fp16_mac-paper"
    yield Wrong(name, "truncation", names(ROUNDING), partial(multiply_add, ties="cut"))
    yield Wrong(name, "half up", names(ROUNDING), partial(multiply_add, ties="up"))
    yield Wrong(name, "half away", names(ROUNDING), partial(multiply_add, ties="away"))
    yield Wrong(name, "fused", names(FUSED), partial(multiply_add, fused=True))
    yield Wrong(name, "saturates", names(SATURATES), partial(multiply_add, top="max"))
    raised = partial(multiply_add, top="max", flag="saturated")
    yield Wrong(name, "saturates, overflow tells", names(SATURATES), raised)
    yield Wrong(name, "saturates, infinities too", names(SATURATES), _finite)
    yield Wrong(name, "flushes", names(FLUSHES), partial(multiply_add, flush=True))
    yield Wrong(name, "NaN is fe00", names("nan|D-arith-1"), partial(multiply_add, nan=0xFE00))
    flag = partial(multiply_add, flag="any")
    yield Wrong(name, "overflow with infinite operands", names("D-arith-18"), flag)
    flag = partial(multiply_add, flag="infinite")
    yield Wrong(name, "overflow is every infinity", names("D-arith-18"), flag)
    yield Wrong(name, "-0 where sums cancel", (), partial(multiply_add, negative_zero=True))
    both = partial(multiply_add, ties="cut", top="max")
    yield Wrong(name, "truncation, saturation", names(ROUNDING, SATURATES), both)
    yield Wrong(name, "fused, truncation", names(FUSED, ROUNDING), partial(multiply_add, fused=True, ties="cut"))
    yield Wrong(name, "fused, flushes", names(FUSED, FLUSHES), partial(multiply_add, fused=True, flush=True))
    yield Wrong(name, "fused, half away", names(FUSED, ROUNDING), partial(multiply_add, fused=True, ties="away"))
    yield Wrong(
        name,
        "fused, flushes, saturates",
        names(FUSED, FLUSHES, SATURATES),
        partial(multiply_add, fused=True, flush=True, top="max"),
    )
    yield Wrong("fp16_mac-fma", "two roundings", names("D-kllm-3"), multiply_add)
    yield Wrong("fp16_mac-fma", "fused, half up", names(ROUNDING), partial(multiply_add, fused=True, ties="up"))
    negated = partial(ran, change=lambda inputs: {"acc": inputs["acc"] ^ np.uint16(0x8000)})
    yield Wrong(name, "acc is negated", names("sign|bit_inverted"), negated)
    bytewise = partial(ran, change=lambda inputs: {"acc": inputs["acc"].astype("<u2").byteswap()})
    yield Wrong(name, "bytes of acc", names("byte_swap"), bytewise)
    ports = partial(ran, change=lambda inputs: {"acc": inputs["a"], "a": inputs["acc"]})
    yield Wrong(name, "a and acc exchanged", names("port_swap"), ports)
    yield Wrong(name, "sign of y dropped", names("sign|bit_stuck|width"), partial(wired, y=lambda y: y & 0x7FFF))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))
    yield Wrong(name, "one wrong row", (), partial(wired, y=hands.single))
    yield Wrong(name, "scrambled rows", (), partial(wired, y=hands.scrambled))


def _finite(golden: Golden) -> Arrays:
    answers = multiply_add(golden, top="max", flag="saturated")
    return wired(golden, answers, y=lambda y: np.where(y & 0x7FFF == 0x7C00, y - 1, y))


def sums() -> Iterator[Wrong]:
    """weighted_sum and index_counter."""
    weighted = model_kllm.weighted_sum
    for name in ("weighted_sum-w4a4", "weighted_sum-example"):
        yield Wrong(name, "fused", names(FUSED), partial(weighted, fused=True))
        yield Wrong(name, "from the last entry", names("D-kllm-2|order"), partial(weighted, order="down"))
        yield Wrong(name, "a tree of all entries", names("D-kllm-2|order"), partial(weighted, order="pairs"))
        yield Wrong(name, "truncation", names(ROUNDING), partial(weighted, ties="cut"))
        yield Wrong(name, "truncation, to 65504", names(ROUNDING), partial(weighted, ties="cut", top="max"))
        yield Wrong(name, "saturates", names(SATURATES), partial(weighted, top="max"))
    name = "weighted_sum-example"
    yield Wrong(name, "fused, truncation", names(FUSED, ROUNDING), partial(weighted, fused=True, ties="cut"))
    yield Wrong(name, "fused, flushes", names(FUSED, FLUSHES), partial(weighted, fused=True, flush=True))
    entries = partial(ran, change=lambda inputs: {"codebook": inputs["codebook"][..., ::-1]})
    yield Wrong(name, "codebook reversed", names("lane_permutation"), entries)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))
    name = "index_counter-example"
    narrow = names("width|wrap|bit_stuck|D-kllm-4")
    yield Wrong(name, "registers of 3 bits", narrow, partial(counter, width=3))
    yield Wrong(name, "3 bits that saturate", names("saturate"), partial(counter, width=3, top="saturate"))
    yield Wrong(name, "left out is index 0", names("D-kllm-13"), partial(counter, invalid="zero"))
    yield Wrong(name, "left out counts", names("D-kllm-13"), partial(counter, invalid="all"))
    yield Wrong(
        name,
        "left out counts, registers of 3 bits",
        names("D-kllm-13", "width|wrap|bit_stuck|D-kllm-4"),
        partial(counter, invalid="all", width=3),
    )
    yield Wrong(name, "never cleared", names("bit_stuck|lane|width"), partial(counter, clear=False))
    yield Wrong(name, "register 5 a cycle late", names("row_shift"), partial(wired, count=in_lane(5, hands.late)))
    deaf = partial(ran, change=_deaf)
    yield Wrong(name, "input lane 15 is never counted", names("lane|bit_stuck|width"), deaf)
    crossed = partial(ran, change=lambda inputs: {"q": inputs["q"] >> 2 | inputs["q"] & 2 | (inputs["q"] & 1) << 2})
    yield Wrong(name, "bits of q reversed", names("bit_swap|lane_permutation"), crossed)


def _deaf(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    valid = inputs["valid"].copy()
    valid[..., 15] = 0
    return {"valid": valid}


def trees() -> Iterator[Wrong]:
    """orizuru and orizuru_clocked."""
    name = "orizuru-n8"
    yield Wrong(name, "ties right", names("D-kllm-21"), partial(pops, ties="right"))
    yield Wrong(name, "-0 < +0", names("D-kllm-27|D-arith-11"), partial(pops, zeros="ordered"))
    yield Wrong(name, "min tree compares", names("D-kllm-21"), partial(pops, leaf="compare"))
    yield Wrong(name, "trees exclude each other", names("D-kllm-26"), partial(pops, shared=True))
    yield Wrong(name, "no repair after the last pop", names("D-kllm-23"), partial(pops, repaired=False))
    shown = partial(pops, repaired=False, valid=True)
    yield Wrong(name, "no repair after the last pop, roots are valid", names("D-kllm-23"), shown)
    yield Wrong(name, "input 7 is never maximal", (), partial(pops, never=7))
    yield Wrong(name, "keys are unsigned", (), partial(pops, unsigned=True))
    yield Wrong(
        name,
        "-0 < +0, no repair after the last pop",
        names("D-kllm-27|D-arith-11", "D-kllm-23"),
        partial(pops, zeros="ordered", repaired=False),
    )
    yield Wrong(
        name,
        "min tree compares, trees exclude each other",
        names("D-kllm-21", "D-kllm-26"),
        partial(pops, leaf="compare", shared=True),
    )
    yield Wrong(
        name,
        "min tree compares, -0 < +0, no repair",
        names("D-kllm-21", "D-kllm-27|D-arith-11", "D-kllm-23"),
        partial(pops, leaf="compare", zeros="ordered", repaired=False),
    )
    backwards = partial(wired, max_index=lambda words: words[:, ::-1], min_index=lambda words: words[:, ::-1])
    yield Wrong(name, "order of the pops reversed", names("lane_permutation"), backwards)
    yield Wrong(name, "root_max stale", names("row_shift"), partial(wired, root_max=hands.late))
    yield Wrong(name, "roots exchanged", names("port_swap"), _roots)
    yield Wrong(name, "max_index from 1", names("constant"), partial(wired, max_index=plus(1)))
    yield Wrong(
        name,
        "-0 < +0, root_min stale",
        names("D-kllm-27|D-arith-11", "row_shift"),
        lambda golden: wired(golden, pops(golden, zeros="ordered"), root_min=hands.late),
    )
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, root_max=hands.seventh))
    name = "orizuru-n16_total_order"
    yield Wrong(name, "min tree is not_max", names("D-kllm-21"), partial(pops, leaf="not_max"))
    name = "orizuru_clocked-n8"
    yield Wrong(name, "outputs 0 unless valid", names("D-arith-20"), partial(model_olive.gated, zero=True))
    yield Wrong(name, "outputs held unless valid", names("D-arith-20"), partial(model_olive.gated, zero=False))
    yield Wrong(name, "valid until the next start", names("D-arith-21"), model_olive.lasting)
    yield Wrong(name, "all outputs an edge late", names("row_shift"), partial(late, 1))
    compares = partial(ran, min_leaf="compare")
    yield Wrong(name, "min tree compares", names("D-kllm-21"), compares)
    yield Wrong(
        name,
        "min tree compares, busy inverted",
        names("D-kllm-21", "bit_inverted|constant|sign"),
        lambda golden: wired(golden, ran(golden, min_leaf="compare"), busy=lambda words: words ^ 1),
    )
    yield Wrong(name, "one wrong row", (), partial(wired, root_min=hands.single))


def _roots(golden: Golden) -> Arrays:
    answers = wired(golden)
    exchanged = {"out.root_max": answers["out.root_min"], "out.root_min": answers["out.root_max"]}
    flags = {"out.root_max_valid": answers["out.root_min_valid"], "out.root_min_valid": answers["out.root_max_valid"]}
    return {**answers, **exchanged, **flags}


def clusters() -> Iterator[Wrong]:
    """clustering."""
    name = "clustering-paper"
    yield Wrong(name, "ties high", names("D-kllm-7"), partial(clustering, tie="high"))
    yield Wrong(name, "reciprocal", names("D-kllm-8"), partial(clustering, normalize="reciprocal"))
    yield Wrong(name, "midpoints", names("D-kllm-8"), partial(clustering, distance="midpoints"))
    yield Wrong(
        name,
        "ties high, reciprocal",
        names("D-kllm-7", "D-kllm-8"),
        partial(clustering, tie="high", normalize="reciprocal"),
    )
    yield Wrong(name, "truncation", names(ROUNDING), partial(clustering, ties="cut"))
    yield Wrong(
        name,
        "ties high, overflow never",
        names("D-kllm-7", "lane|bit_stuck|width"),
        lambda golden: wired(golden, clustering(golden, tie="high"), overflow=np.zeros_like),
    )
    yield Wrong(name, "index from the top", names("bit_inverted"), partial(wired, index=lambda words: 15 - words))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, index=hands.seventh))
    ports = partial(ran, change=lambda inputs: {"codebook": inputs["codebook"] & np.uint16(0xFFFE)})
    yield Wrong(name, "bit 0 of the codebook is 0", names("bit_stuck|width"), ports)


def indices() -> Iterator[Wrong]:
    """concat, index_product."""
    name = "concat-a4"
    yield Wrong(name, "b is the high part", names("D-kllm-6|nibble_swap|port_swap"), _nibbles)
    yield Wrong(name, "an edge late", names("row_shift"), partial(late, 1))
    yield Wrong(name, "bits 3 and 4 crossed", names("bit_swap"), partial(wired, q=hands.swapped_bits(3, 4)))
    yield Wrong(
        name,
        "b is the high part, an edge late",
        names("D-kllm-6|nibble_swap|port_swap", "row_shift"),
        lambda golden: wired(golden, _nibbles(golden), q=hands.late),
    )
    yield Wrong("concat-a3_qk", "always four places up", names("D-kllm-6"), _four)
    yield Wrong(name, "scrambled rows", (), partial(wired, q=hands.scrambled))
    name = "index_product-w4a4"
    order = names("D-kllm-6|nibble_swap|port_swap")
    yield Wrong(name, "b is the high part", order, partial(product, high="b"))
    yield Wrong(name, "only outliers of both", (), partial(product, mask="and"))
    yield Wrong(name, "truncation", names(ROUNDING), partial(product, ties="cut"))
    yield Wrong(
        name,
        "b is the high part, truncation",
        names("D-kllm-6|nibble_swap|port_swap", ROUNDING),
        partial(product, high="b", ties="cut"),
    )
    yield Wrong(name, "outliers keep an index", names("unconnected", "unconnected"), partial(product, zero=False))
    yield Wrong(name, "outlier a row late", names("row_shift"), partial(wired, outlier=hands.late))
    yield Wrong(name, "saturates", names(SATURATES), partial(product, top="max"))


def _nibbles(golden: Golden) -> Arrays:
    return wired(golden, q=lambda words: words >> 4 | words << 4)


def _four(golden: Golden) -> Arrays:
    inputs = hands.stimulus(golden)
    return {"out.q": (inputs["a"] << 4 | inputs["b"]).astype(np.uint8)}


def products() -> Iterator[Wrong]:
    """index_matmul and kllm_chip."""
    name = "index_matmul-w4a4"
    yield Wrong(name, "fused", names(FUSED), partial(matmul, fused=True))
    yield Wrong(name, "outliers are counted, too", names("D-kllm-13"), partial(matmul, counted=True))
    yield Wrong(name, "only outliers of A are excluded from the counts", names("D-kllm-12"), partial(matmul, masks="a"))
    yield Wrong(name, "product of the scales not rounded", names("D-kllm-33"), partial(matmul, scales="exact"))
    yield Wrong(name, "scales in turn", names("D-kllm-33"), partial(matmul, scales="turn"))
    yield Wrong(
        name, "fused, outliers are counted", names(FUSED, "D-kllm-13"), partial(matmul, fused=True, counted=True)
    )
    yield Wrong(name, "fused, exact scales", names(FUSED, "D-kllm-33"), partial(matmul, fused=True, scales="exact"))
    yield Wrong(
        name,
        "fused, outliers are counted, exact scales",
        names(FUSED, "D-kllm-13", "D-kllm-33"),
        partial(matmul, fused=True, counted=True, scales="exact"),
    )
    yield Wrong(name, "no sparse path", names("unconnected", "unconnected"), partial(matmul, sparse=False))
    yield Wrong(name, "from the last entry", names("D-kllm-2|order"), partial(matmul, order="down"))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))
    yield Wrong("index_matmul-long", "counters of 3 bits", names("D-kllm-4|wrap|width"), partial(matmul, bits=3))
    yield Wrong("index_matmul-long", "fused", names(FUSED), partial(matmul, fused=True))
    name = "kllm_chip-column"
    yield Wrong(name, "fused", names(FUSED), partial(chip, fused=True, merged=True))
    yield Wrong(name, "outliers are counted, too", names("D-kllm-13"), partial(chip, counted=True))
    yield Wrong(name, "the scale is that of the outliers", names("D-kllm-9"), partial(chip, scale="outlier"))
    yield Wrong(name, "the higher of two nearest centroids", names("D-kllm-7"), partial(chip, tie="high"))
    yield Wrong(name, "one histogram after the other", names("D-kllm-42"), partial(ran, merge="serial"))
    yield Wrong(name, "a column for each counter", names("D-kllm-31"), partial(ran, lane_mapping="counter"))
    yield Wrong(name, "sums go from slab to slab", names("D-kllm-47"), partial(ran, carry="sums"))
    yield Wrong(
        name,
        "the higher centroid, one histogram after the other",
        names("D-kllm-7", "D-kllm-42"),
        lambda golden: chip(golden, tie="high") | _cycles(ran(golden, merge="serial")),
    )
    yield Wrong("kllm_chip-sums", "counts go from slab to slab", names("D-kllm-47"), partial(ran, carry="counts"))
    yield Wrong(name, "columns reversed", names("lane_permutation"), _columns)
    yield Wrong(name, "last column dead", names("lane|bit_stuck|width"), partial(wired, y=in_lane(9, np.zeros_like)))
    yield Wrong(name, "column 3 a row late", names("row_shift"), partial(wired, y=in_lane(3, hands.late)))
    yield Wrong(name, "bytes of y", names("byte_swap"), partial(wired, y=lambda words: words.byteswap()))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))


def _cycles(answers: Arrays) -> Arrays:
    return {"out.cycles_taken": answers["out.cycles_taken"]}


def _columns(golden: Golden) -> Arrays:
    return wired(golden, y=lambda words: words[:, ::-1], overflow=lambda words: words[:, ::-1])


def functions() -> Iterator[Wrong]:
    """functional, score_quantizer, index_function, index_norm."""
    for op in ("exp", "sqrt", "recip"):
        name = f"functional-{op}"
        yield Wrong(name, "truncation", names(ROUNDING), partial(function, ties="cut"))
    yield Wrong("functional-exp", "saturates", names(SATURATES), partial(function, top="max"))
    yield Wrong("functional-recip", "saturates", names(SATURATES), partial(function, top="max"))
    yield Wrong("functional-exp", "flushes", names(FLUSHES), partial(function, flush=True))
    both = partial(function, flush=True, top="max")
    yield Wrong("functional-exp", "flushes, saturates", names(FLUSHES, SATURATES), both)
    nan = partial(wired, y=lambda words: np.where(words == 0x7E00, 0xFE00, words))
    yield Wrong("functional-sqrt", "NaN is fe00", names("nan|D-arith-1"), nan)
    name = "functional-softmax"
    softmax = model_kllm.softmax
    yield Wrong(name, "the sum is fp16", names("D-kllm-20"), partial(softmax, total="fp16"))
    yield Wrong(name, "reciprocal of the sum", names("D-kllm-20"), partial(softmax, recip=True))
    yield Wrong(name, "from the last term", names("D-kllm-20|order|D-arith-4"), partial(softmax, order="down"))
    yield Wrong(name, "truncation", names(ROUNDING), partial(softmax, ties="cut"))
    yield Wrong(name, "fp16 sum, truncation", names("D-kllm-20", ROUNDING), partial(softmax, total="fp16", ties="cut"))
    yield Wrong(name, "lane 19 stale", names("row_shift"), partial(wired, y=in_lane(19, hands.late)))
    name = "score_quantizer-fold4"
    scores = model_kllm.scores
    yield Wrong(name, "not folded", names("D-kllm-14"), partial(scores, fold=False))
    yield Wrong(name, "rounded down", names("D-kllm-15|rounding"), partial(scores, ties="cut"))
    yield Wrong(name, "ties up", names("D-kllm-15|rounding"), partial(scores, ties="away"))
    yield Wrong(
        name,
        "not folded, rounded down",
        names("D-kllm-14", "D-kllm-15|rounding"),
        partial(scores, fold=False, ties="cut"),
    )
    yield Wrong(name, "the maximum becomes 14", names("D-kllm-15"), partial(scores, levels=14))
    yield Wrong(name, "scale of zeros is 0", names("D-kllm-15"), partial(scores, zero=0))
    yield Wrong(name, "lane 5 one more", names("constant"), partial(wired, q=in_lane(5, plus(1))))
    name = "index_function-silu"
    yield Wrong(name, "literal", names("D-kllm-17"), partial(ran, mode="literal"))
    entries = partial(wired, entries=lambda words: words[:, ::-1])
    yield Wrong(name, "entries reversed", names("lane_permutation"), entries)
    bytewise = partial(ran, change=lambda inputs: {"outlier": inputs["outlier"] ^ np.uint16(0x8000)})
    yield Wrong(name, "outliers negated", names("sign|bit_inverted"), bytewise)
    yield Wrong(
        name,
        "literal, value a row late",
        names("D-kllm-17", "row_shift"),
        lambda golden: wired(golden, ran(golden, mode="literal"), value=hands.late),
    )
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, entries=hands.seventh))
    name = "index_norm-layer"
    yield Wrong(name, "statistics in fp16", names("D-kllm-20"), partial(ran, preset=KllmArith(stat="fp16")))
    yield Wrong(name, "no eps", names("D-kllm-19"), partial(ran, eps=1e-30))
    yield Wrong(name, "shift negated", names("sign|bit_inverted"), partial(wired, shift=lambda words: words ^ 0x8000))
    yield Wrong(
        name,
        "statistics in fp16, sign of mean dropped",
        names("D-kllm-20", "sign|bit_stuck|width"),
        lambda golden: wired(golden, ran(golden, preset=KllmArith(stat="fp16")), mean=lambda words: words & 0x7FFFFFFF),
    )
    yield Wrong(
        name, "divided reversed", names("lane_permutation"), partial(wired, divided=lambda words: words[:, ::-1])
    )
    yield Wrong(name, "scrambled rows", (), partial(wired, folded=hands.scrambled))


def lane() -> Iterator[Wrong]:
    """pe_lane."""
    of = model_kllm_lane.of
    name = "pe_lane-column"
    yield Wrong(name, "serial merge", names("D-kllm-42"), partial(ran, merge="serial"))
    yield Wrong(name, "outputs 0 unless y_valid", names("D-kllm-46"), model_kllm_lane.gated)
    yield Wrong(name, "b is the high part", names("D-kllm-6"), of(model_kllm_lane.Exchanged))
    yield Wrong(name, "no valid bits", names("D-kllm-13"), of(model_kllm_lane.Unmasked))
    yield Wrong(name, "all outputs an edge late", names("row_shift"), partial(late, 1))
    yield Wrong(name, "MACs reversed", names("lane_permutation"), model_kllm_lane.reversed_macs)
    yield Wrong(name, "MAC 1 dead", names("lane|bit_stuck|width"), partial(wired, y=in_lane(1, np.zeros_like)))
    yield Wrong(name, "the tile before", (), of(model_kllm_lane.TileBefore))
    yield Wrong(name, "centroids without scale", names("bit_stuck", "bit_stuck"), of(model_kllm_lane.Unscaled))
    yield Wrong(name, "one wrong row", (), partial(wired, y=hands.single))
    name = "pe_lane-integer"
    yield Wrong(name, "merge at once", names("D-kllm-42"), partial(ran, merge="tree"))
    yield Wrong(name, "the bank is not cleared", (), of(model_kllm_lane.Uncleared))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))
