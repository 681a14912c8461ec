"""Faulty devices of Harmonia's units, as hardware teams make them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain import hands
from tests.golden.explain.collection import Arrays, Wrong, late, names, outputs
from tests.golden.explain.hands import in_lane, plus, ran, wired
from tests.golden.explain.model_harmonia import aligner, allocator, element, encoded, grouper, halves, sums

ROUNDING, SATURATES, FLUSHES = "D-arith-2|rounding", "D-arith-2|saturate", "D-arith-2|flush"
LANE7: dict[str, Any] = {"extra": 1}


def devices() -> Iterator[Wrong]:
    """All devices."""
    yield from aligners()
    yield from converters()
    yield from elements()
    yield from allocators()
    yield from offsets()
    yield from cores()
    yield from products()
    yield from arrays_with_a_clock()
    yield from cores_with_a_clock()


def aligners() -> Iterator[Wrong]:
    """bfp_aligner."""
    name = "bfp_aligner-paper"
    for rounding in ("half_even", "half_away", "floor"):
        yield Wrong(name, rounding, names("D-harmonia-2|rounding"), partial(aligner, rounding=rounding))
    yield Wrong(name, "flushes", names("D-harmonia-4|flush"), partial(aligner, flush=True))
    yield Wrong(name, "infinity is legal", names("D-harmonia-5"), partial(aligner, special="hw"))
    yield Wrong(name, "sign of 0", names("D-harmonia-6"), partial(aligner, zero_sign="canonical"))
    even: dict[str, Any] = {"rounding": "half_even"}
    yield Wrong(
        name,
        "half_even, flushes",
        names("D-harmonia-2|rounding", "D-harmonia-4|flush"),
        partial(aligner, flush=True, **even),
    )
    yield Wrong(
        name,
        "half_even, flushes, infinity is legal",
        names("D-harmonia-2|rounding", "D-harmonia-4|flush", "D-harmonia-5"),
        partial(aligner, flush=True, special="hw", **even),
    )
    shifted = names("D-harmonia-2|rounding", "D-harmonia-1|bit_swap|width|lane")
    yield Wrong(name, "half_even, lane 7 shifted", shifted, partial(aligner, last=LANE7, **even))
    yield Wrong(name, "lane 7 shifted", names("D-harmonia-1|bit_swap|width|lane"), partial(aligner, last=LANE7))
    yield Wrong(name, "half_even without clamp", names("D-harmonia-2|rounding"), partial(aligner, clamp=False, **even))
    yield Wrong(name, "lane 7 alone half_even", names("D-harmonia-2|rounding"), partial(aligner, last=even))
    yield Wrong(name, "lanes reversed", names("lane_permutation"), _reversed)
    yield Wrong(name, "lane 3 a row late", names("row_shift"), partial(wired, mantissa=in_lane(3, hands.late)))
    yield Wrong(
        name,
        "sign of lane 2 dropped",
        names("lane|bit_stuck|width|sign"),
        partial(wired, sign=in_lane(2, np.zeros_like)),
    )
    yield Wrong(
        name,
        "flushes, sign of 0, sign of lane 2 dropped",
        names("D-harmonia-4|flush", "D-harmonia-6", "lane|bit_stuck|width|sign"),
        lambda golden: wired(
            golden, aligner(golden, flush=True, zero_sign="canonical"), sign=in_lane(2, np.zeros_like)
        ),
    )
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, mantissa=hands.seventh))
    yield Wrong(name, "one wrong row", (), partial(wired, mantissa=hands.single))


def _reversed(golden: Golden) -> Arrays:
    return {name: array[:, ::-1].copy() for name, array in outputs(golden).items()}


def converters() -> Iterator[Wrong]:
    """bfp_converter, fp2half."""
    name = "bfp_converter-paper"
    yield Wrong(name, "half_even", names("D-harmonia-2|rounding"), partial(ran, rounding="half_even"))
    yield Wrong(name, "sign of 0", names("D-harmonia-6"), _canonical)
    yield Wrong(
        name,
        "half_even, sign of 0",
        names("D-harmonia-2|rounding", "D-harmonia-6"),
        lambda golden: _canonical(golden, ran(golden, rounding="half_even")),
    )
    yield Wrong(name, "exponent a row late", names("row_shift"), partial(wired, exponent=hands.late))
    yield Wrong(
        name, "ready inverted", names("bit_inverted|constant|sign"), partial(wired, ready=lambda words: words ^ 1)
    )
    yield Wrong(name, "mask reversed", names("bit_swap|lane_permutation"), partial(wired, out_valid=_bits))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, mantissa=hands.seventh))
    name = "fp2half-paper"
    yield Wrong(name, "saturates", names("D-harmonia-13|saturate|D-arith-2"), partial(halves, top="max"))
    clamped = partial(wired, y=lambda words: np.where(words & 0x7FFF == 0x7C00, words - 1, words))
    yield Wrong(name, "infinities are 65504", names("D-harmonia-13|saturate|D-arith-2"), clamped)
    yield Wrong(name, "truncates", names(ROUNDING), partial(halves, ties="cut"))
    toward = partial(halves, ties="cut", top="max")
    yield Wrong(name, "truncates, to 65504", names(ROUNDING), toward)
    yield Wrong(name, "half away", names(ROUNDING), partial(halves, ties="away"))
    yield Wrong(name, "half up", names(ROUNDING), partial(halves, ties="up"))
    yield Wrong(name, "flushes", names(FLUSHES), partial(halves, flush=True))
    yield Wrong(
        name, "flushes, saturates", names(FLUSHES, "D-harmonia-13|saturate"), partial(halves, flush=True, top="max")
    )
    yield Wrong(
        name,
        "half away, flushes, saturates",
        names(ROUNDING, FLUSHES, "D-harmonia-13|saturate"),
        partial(halves, ties="away", flush=True, top="max"),
    )
    nan = partial(wired, y=lambda words: np.where(words == 0x7E00, 0xFE00, words))
    yield Wrong(name, "NaN is fe00", names("nan|D-arith-1"), nan)
    yield Wrong(name, "bytes of y", names("byte_swap"), partial(wired, y=lambda words: words.byteswap()))
    halfwords = partial(ran, change=lambda inputs: {"x": inputs["x"] >> 16 | inputs["x"] << 16})
    yield Wrong(name, "halves of x exchanged", names("byte_swap|bit_swap"), halfwords)
    yield Wrong("fp2half-saturate", "infinity", names("D-harmonia-13"), partial(halves, top="inf"))


def _canonical(golden: Golden, base: Arrays | None = None) -> Arrays:
    answers = dict(base or outputs(golden))
    answers["out.sign"] = np.where(answers["out.mantissa"] == 0, 0, answers["out.sign"]).astype(np.uint8)
    return answers


def _bits(words: np.ndarray) -> np.ndarray:
    return np.packbits(np.unpackbits(words, bitorder="little"))


def elements() -> Iterator[Wrong]:
    """sub_pe, bfp_accumulator, bfp_pe, bfp_pe_array."""
    name = "sub_pe-paper"
    yield Wrong(name, "17 bits", names("width|wrap|bit_stuck"), partial(sums, bits=17))
    yield Wrong(name, "17 bits that saturate", names("saturate"), partial(sums, bits=17, top="saturate"))
    yield Wrong(name, "31 lanes are added", names("lane|bit_stuck|width"), partial(sums, lanes=31))
    yield Wrong(name, "signs of b ignored", names("lane|bit_stuck|width"), partial(sums, signs="a"))
    yield Wrong(name, "31 lanes, one added", names("lane|bit_stuck|width", "constant"), _one_more)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, psum=hands.seventh))
    for name in ("bfp_accumulator-paper", "bfp_pe-paper"):
        yield Wrong(name, "nibbles apart, in FP32", names("D-harmonia-11"), partial(element, nibbles="fp32"))
        yield Wrong(name, "nibbles apart, in FP16", names("D-harmonia-11"), partial(element, nibbles="fp16"))
        yield Wrong(name, "partial sums are FP32", names("D-harmonia-7"), partial(element, partial="fp32"))
        yield Wrong(name, "truncates", names(ROUNDING), partial(element, ties="cut"))
        yield Wrong(name, "truncates, to 65504", names(ROUNDING), partial(element, ties="cut", top="max"))
        yield Wrong(name, "saturates", names(SATURATES), partial(element, top="max"))
        yield Wrong(name, "flushes", names(FLUSHES), partial(element, flush=True))
        yield Wrong(
            name,
            "nibbles apart, half away",
            names("D-harmonia-11", ROUNDING),
            partial(element, nibbles="fp32", ties="away"),
        )
        yield Wrong(name, "flushes, saturates", names(FLUSHES, SATURATES), partial(element, flush=True, top="max"))
        yield Wrong(name, "never cleared", names("lane|bit_stuck|width"), partial(element, clear=False))
        flags = partial(wired, flags=hands.swapped_bits(0, 1))
        yield Wrong(name, "flags exchanged", names("bit_swap"), flags)
        yield Wrong(name, "ulp in every seventh row", (), partial(wired, acc=hands.seventh))
    name = "bfp_pe-paper"
    yield Wrong(name, "INT4 is sign and magnitude", names("D-harmonia-14"), partial(element, codes="magnitude"))
    yield Wrong(
        name,
        "INT4 is sign and magnitude, truncates",
        names("D-harmonia-14", ROUNDING),
        partial(element, codes="magnitude", ties="cut"),
    )
    name = "bfp_pe_array-paper"
    turned = [16 * (lane % 8) + lane // 8 for lane in range(128)]
    yield Wrong(name, "tile column by column", names("lane_permutation"), partial(_turned, turned))
    yield Wrong(name, "partial sums are FP32", names("D-harmonia-7"), partial(ran, partial="fp32"))
    column = np.arange(128) % 16 == 15
    yield Wrong(
        name,
        "column 15 is dead",
        names("lane|bit_stuck|width"),
        partial(wired, acc=lambda words: np.where(column, 0, words)),
    )
    signs = partial(ran, change=lambda inputs: {"a_sign": inputs["a_sign"] ^ 1})
    yield Wrong(name, "signs of a inverted", names("bit_inverted|sign|constant"), signs)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, acc=hands.seventh))


def _one_more(golden: Golden) -> Arrays:
    return wired(golden, sums(golden, lanes=31), psum=plus(1))


def _turned(order: list[int], golden: Golden) -> Arrays:
    return {name: array[:, order] for name, array in outputs(golden).items()}


def allocators() -> Iterator[Wrong]:
    """bit_allocator, fdgf."""
    name = "bit_allocator-paper"
    yield Wrong(name, "65 local tokens", names("D-harmonia-18"), partial(allocator, local=1))
    yield Wrong(name, "32 local tokens", names("D-harmonia-18"), partial(allocator, local=-32))
    yield Wrong(name, "a group falls with its first token", names("D-harmonia-17"), partial(allocator, whole=False))
    yield Wrong(name, "a prompt reports its last demotion", names("D-harmonia-19"), partial(allocator, prompts=False))
    yield Wrong(
        name,
        "32 local tokens, a group falls with its first token",
        names("D-harmonia-18", "D-harmonia-17"),
        partial(allocator, local=-32, whole=False),
    )
    yield Wrong(name, "k_token from 1", names("constant"), partial(wired, k_token=plus(1)))
    yield Wrong(name, "v_group a row late", names("row_shift"), partial(wired, v_group=hands.late))
    yield Wrong(name, "one wrong row", (), partial(wired, k_token=hands.single))
    name = "fdgf-small"
    yield Wrong(name, "always dataflow 1", names("D-harmonia-31"), partial(ran, change=partial(_flow, 1)))
    yield Wrong(name, "always dataflow 2", names("D-harmonia-31"), partial(ran, change=partial(_flow, 2)))
    yield Wrong(name, "addresses exchanged", names("port_swap"), _addresses)
    yield Wrong(name, "a_address from 1", names("constant"), partial(wired, a_address=plus(1)))
    yield Wrong(name, "count a row late", names("row_shift"), partial(wired, count=hands.late))
    yield Wrong(name, "scrambled rows", (), partial(wired, count=hands.scrambled))
    both = partial(ran, change=partial(_flow, 1))
    yield Wrong(
        name,
        "always dataflow 1, addresses exchanged",
        names("D-harmonia-31", "port_swap"),
        lambda golden: _addresses(golden, both(golden)),
    )


def _flow(number: int, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    forced = inputs["forced"]
    return {"forced": np.where((forced == 0) & (inputs["start"] == 1), number, forced).astype(forced.dtype)}


def _addresses(golden: Golden, base: Arrays | None = None) -> Arrays:
    answers = dict(base or outputs(golden))
    return {**answers, "out.a_address": answers["out.b_address"], "out.b_address": answers["out.a_address"]}


def offsets() -> Iterator[Wrong]:
    """k_offset, v_grouper."""
    name = "k_offset-small"
    yield Wrong(name, "offsets have no sign", names("D-harmonia-23"), partial(ran, offset_sign="unsigned"))
    yield Wrong(name, "three offsets", names("D-harmonia-24"), partial(ran, offset_k=3))
    yield Wrong(
        name,
        "offsets have no sign, three of them",
        names("D-harmonia-23", "D-harmonia-24"),
        partial(ran, offset_sign="unsigned", offset_k=3),
    )
    stale = partial(wired, offset=in_lane(4, hands.late))
    yield Wrong(name, "offset of channel 4 a row late", names("row_shift"), stale)
    yield Wrong(
        name,
        "channels of selected reversed",
        names("lane_permutation"),
        partial(wired, selected=lambda words: words[:, ::-1]),
    )
    yield Wrong(name, "bytes of k_out", names("byte_swap"), partial(wired, k_out=lambda words: words.byteswap()))
    negated = partial(ran, change=lambda inputs: {"k": inputs["k"] ^ np.uint16(0x8000)})
    yield Wrong(name, "keys negated", names("sign|bit_inverted"), negated)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, k_out=hands.seventh))
    name = "v_grouper-paper"
    yield Wrong(name, "half_even", names("D-harmonia-2|rounding"), partial(grouper, rounding="half_even"))
    yield Wrong(name, "flushes", names("D-harmonia-4|flush"), partial(grouper, flush=True))
    yield Wrong(name, "sign of 0", names("D-harmonia-6"), partial(grouper, zero_sign="canonical"))
    yield Wrong(name, "exponent at least 1", names("D-harmonia-3"), partial(grouper, least=1))
    yield Wrong(
        name,
        "half_even, sign of 0",
        names("D-harmonia-2|rounding", "D-harmonia-6"),
        partial(grouper, rounding="half_even", zero_sign="canonical"),
    )
    yield Wrong(
        name,
        "half_away, flushes, sign of 0",
        names("D-harmonia-2|rounding", "D-harmonia-4|flush", "D-harmonia-6"),
        partial(grouper, rounding="half_away", flush=True, zero_sign="canonical"),
    )
    yield Wrong(
        name, "without clamp", names("D-harmonia-2|rounding"), partial(grouper, rounding="half_even", clamp=False)
    )
    yield Wrong(name, "count a row late", names("row_shift"), partial(wired, count=hands.late))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, mantissa=hands.seventh))


def cores() -> Iterator[Wrong]:
    """harmonia_core."""
    name = "harmonia_core-linear"
    yield Wrong(
        name, "the converter rounds to even", names("D-harmonia-2|rounding"), partial(_converted, rounding="half_even")
    )
    yield Wrong(name, "partial sums are FP32", names("D-harmonia-7"), partial(ran, partial="fp32"))
    yield Wrong(
        name,
        "partial sums are FP32, the converter rounds to even",
        names("D-harmonia-7", "D-harmonia-2|rounding"),
        partial(_converted, rounding="half_even", partial="fp32"),
    )
    yield Wrong(name, "sign of 0", names("D-harmonia-6"), _canonical)
    yield Wrong(
        name, "y in columns reversed", names("lane_permutation"), partial(wired, y=lambda words: words[:, ::-1])
    )
    yield Wrong(name, "exponent a row late", names("row_shift"), partial(wired, exponent=hands.late))
    signs = partial(ran, change=lambda inputs: {"a_sign": inputs["a_sign"] ^ 1})
    yield Wrong(name, "signs of a inverted", names("bit_inverted|sign|constant"), signs)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, y=hands.seventh))
    yield Wrong("harmonia_core-k", "all a row late", names("row_shift"), partial(late, 1))


def _converted(golden: Golden, rounding: str, **parameters: Any) -> Arrays:
    y = (ran(golden, **parameters) if parameters else outputs(golden))["out.y"]
    return encoded(golden, y, int(golden.manifest["config"]["columns"]), rounding)


def products() -> Iterator[Wrong]:
    """harmonia_core: operands of a decode step, a prompt or a biased layer other than A and B."""
    yield Wrong("harmonia_core-decode", "keys keep their values", names("D-harmonia-26"), _unshifted)
    none = partial(ran, change=lambda inputs: {"bias": 0 * inputs["bias"]})
    yield Wrong("harmonia_core-bias", "the bias is not connected", names("D-harmonia-29|bit_stuck|lane|width"), none)
    rows = partial(ran, change=lambda inputs: {"position": np.zeros_like(inputs["position"]) + np.arange(6)})
    yield Wrong("harmonia_core-placed", "rows count their position", names("D-harmonia-45"), rows)
    yield Wrong("harmonia_core-k", "pairs side by side", names("D-harmonia-48"), partial(ran, rotation="interleaved"))


def _unshifted(golden: Golden) -> Arrays:
    """The offsets of the prompt are reported but not subtracted."""
    answers = ran(golden, change=lambda inputs: {"frozen": 0 * inputs["frozen"]})
    return {**answers, "out.offset": outputs(golden)["out.offset"]}


def arrays_with_a_clock() -> Iterator[Wrong]:
    """bfp_pe_array_clocked."""
    name = "bfp_pe_array_clocked-by_slot"
    yield Wrong(name, "partial sums are FP32", names("D-harmonia-7"), partial(ran, partial="fp32"))
    leaving = dict.fromkeys(("acc", "flags", "valid", "col"), hands.late)
    yield Wrong(name, "columns leave an edge later", names("D-harmonia-42|row_shift"), partial(wired, **leaving))
    yield Wrong(
        name, "row 1 never leaves", names("lane|bit_stuck|width"), partial(wired, valid=in_lane(1, np.zeros_like))
    )
    yield Wrong(name, "bytes of acc", names("byte_swap"), partial(wired, acc=lambda words: words.byteswap()))
    signs = partial(ran, change=lambda inputs: {"a_sign": inputs["a_sign"] ^ 1})
    yield Wrong(name, "signs of a inverted", names("bit_inverted|sign|constant"), signs)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, acc=hands.seventh))


def cores_with_a_clock() -> Iterator[Wrong]:
    """harmonia_core_clocked."""
    name = "harmonia_core_clocked-linear"
    stream = ("sent", "row", "column", "sign", "mantissa", "exponent", "word")
    later = partial(wired, **dict.fromkeys(stream, hands.late))
    yield Wrong(name, "columns leave through a register", names("D-harmonia-54|row_shift"), later)
    yield Wrong(name, "valid stays", names("D-arith-21"), _lasting)
    yield Wrong(name, "ReLU", names("D-harmonia-48"), partial(ran, activation="relu"))
    yield Wrong(name, "bytes of word", names("byte_swap"), partial(wired, word=lambda words: words.byteswap()))
    backwards = partial(wired, working=lambda words: words[:, ::-1])
    yield Wrong(name, "parts the other way round", names("lane_permutation"), backwards)
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, word=hands.seventh))


def _lasting(golden: Golden) -> Arrays:
    """`valid` remains set until a product begins, as `busy` shows."""
    answers = outputs(golden)
    for rows in hands.cases(golden):
        up = 0
        for row in rows:
            up = 0 if answers["out.busy"][row] else max(up, int(answers["out.valid"][row]))
            answers["out.valid"][row] = up
    return answers
