"""Faulty devices of OliVe's units, as hardware teams make them."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.golden.files.sets import Golden
from tests.golden.explain import hands, model_olive
from tests.golden.explain.collection import Arrays, Wrong, late, names
from tests.golden.explain.hands import in_lane, plus, ran, wired
from tests.golden.explain.model_olive import decoder, edp, encoder, mac, pe8, tile
from tests.golden.explain.model_olive_stage import stage

TRANSPOSED8 = [8 * (lane % 8) + lane // 8 for lane in range(64)]
TRANSPOSED = [6 * (lane % 5) + lane // 5 for lane in range(30)]


def devices() -> Iterator[Wrong]:
    """All devices."""
    yield from decoders()
    yield from encoders()
    yield from stages()
    yield from macs()
    yield from products()
    yield from tiles()
    yield from clocked()
    yield from arrays()


def decoders() -> Iterator[Wrong]:
    """ovp_decoder, outlier_decoder, flint_decoder."""
    name = "ovp_decoder-int4"
    swapped = partial(decoder, left="high")
    yield Wrong(name, "nibbles swapped", names("D-olive-1|lane_permutation|nibble_swap"), swapped)
    yield Wrong(
        name, "outliers only at the left", names("lane|bit_stuck|width"), partial(decoder, right_outliers=False)
    )
    yield Wrong(name, "exponent saturates", names("D-olive-20|saturate"), partial(decoder, top="saturate"))
    yield Wrong(name, "a victim keeps the bias", names("D-olive-19"), partial(decoder, victim="bias"))
    raised = partial(wired, exponent=in_lane(1, plus(1)))
    yield Wrong(name, "exponent of lane 1 is one more", names("constant"), raised)
    never = partial(decoder, illegal="never")
    yield Wrong(name, "illegal never", names("D-olive-18|bit_stuck|width|lane"), never)
    both = partial(decoder, left="high", top="saturate")
    yield Wrong(
        name, "nibbles, saturates", names("D-olive-1|lane_permutation|nibble_swap", "D-olive-20|saturate"), both
    )
    for more in ("ovp_decoder-int4", "ovp_decoder-int8"):
        yield Wrong(
            more,
            "a victim keeps the bias, the reserved code has exponent 0",
            names("D-olive-19"),
            partial(decoder, victim="bias", reserved="zero"),
        )
    yield Wrong(
        name,
        "saturates, a victim keeps the bias, illegal never",
        names("D-olive-20|saturate", "D-olive-19", "D-olive-18|bit_stuck|width|lane"),
        partial(decoder, top="saturate", victim="bias", illegal="never"),
    )
    yield Wrong(name, "row late", names("row_shift"), partial(late, 1))
    yield Wrong(name, "base_int a row late", names("row_shift"), partial(wired, base_int=hands.late))
    yield Wrong(
        name,
        "sign of the integer dropped in lane 1",
        names("bit_stuck|width|sign"),
        partial(wired, base_int=in_lane(1, lambda words: words & 7)),
    )
    yield Wrong(name, "lane 0 of base_int stale", names("row_shift"), partial(wired, base_int=in_lane(0, hands.late)))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, base_int=hands.seventh))
    yield Wrong(name, "one wrong row", (), partial(wired, base_int=hands.single))
    yield Wrong("ovp_decoder-flint4", "the page's own pairs", names("D-olive-16"), partial(decoder, flint="page"))
    yield Wrong(
        "ovp_decoder-flint4",
        "the page's own pairs, nibbles",
        names("D-olive-16", "D-olive-1|lane_permutation|nibble_swap"),
        partial(decoder, flint="page", left="high"),
    )
    yield Wrong("ovp_decoder-int8", "bytes of the pair", names("D-olive-1|lane_permutation|byte_swap"), swapped)
    yield Wrong("ovp_decoder-int8", "exponent of 4 bits", names("D-olive-20|width|bit_stuck"), partial(decoder, cut=15))
    name = "outlier_decoder-e2m1"
    yield Wrong(name, "saturates", names("D-olive-20|saturate"), partial(model_olive.outliers, top="saturate"))
    yield Wrong(name, "no hidden one", (), partial(model_olive.outliers, hidden=0))
    yield Wrong(name, "reserved exponent 0", names("D-olive-19"), partial(model_olive.outliers, reserved="zero"))
    yield Wrong(
        name,
        "saturates, reserved exponent 0",
        names("D-olive-20|saturate", "D-olive-19"),
        partial(model_olive.outliers, top="saturate", reserved="zero"),
    )
    yield Wrong(name, "sign ignored", names("bit_stuck|sign|width"), partial(model_olive.outliers, positive=True))
    yield Wrong(
        "outlier_decoder-e4m3", "ports cut to 4 bits", names("width|bit_stuck"), partial(model_olive.outliers, cut=15)
    )
    name = "flint_decoder-flint4"
    yield Wrong(name, "the page's own pairs", names("D-olive-16"), partial(model_olive.flints, flint="page"))
    yield Wrong(name, "sign ignored", names("bit_stuck|sign|width"), partial(model_olive.flints, positive=True))
    yield Wrong(name, "exponent and integer exchanged", names("port_swap"), _exchanged)
    yield Wrong(name, "one wrong row", (), partial(wired, exponent=hands.single))
    yield Wrong(name, "16 is <3, 2>", names("D-olive-16"), partial(model_olive.flints, flint="sixteen"))


def _exchanged(golden: Golden) -> Arrays:
    answers = wired(golden)
    return {"out.exponent": answers["out.base_int"], "out.base_int": answers["out.exponent"]}


def encoders() -> Iterator[Wrong]:
    """ovp_encoder."""
    name = "ovp_encoder-int4"
    yield Wrong(name, "nibbles swapped", names("D-olive-1|nibble_swap|bit_swap"), partial(encoder, left="high"))
    yield Wrong(name, "a closed threshold", names("D-olive-4"), partial(encoder, closed=True))
    yield Wrong(name, "on a tie the left one stays", names("D-olive-5"), partial(encoder, tie="left"))
    yield Wrong(name, "the left one stays", names("D-olive-5"), partial(encoder, winner="left"))
    yield Wrong(name, "normal ties away from 0", names("D-olive-7|rounding"), partial(encoder, ties="away"))
    everywhere = partial(encoder, ties="away", outlier_ties="away")
    yield Wrong(name, "all ties away from 0", names("D-olive-7|D-olive-8|rounding"), everywhere)
    yield Wrong(
        name, "ties of outliers away from 0", names("D-olive-8|rounding"), partial(encoder, outlier_ties="away")
    )
    yield Wrong(
        name, "closed, ties away", names("D-olive-4", "D-olive-7|rounding"), partial(encoder, closed=True, ties="away")
    )
    yield Wrong(
        name,
        "closed, left one stays, nibbles",
        names("D-olive-4", "D-olive-5", "D-olive-1|nibble_swap|bit_swap"),
        partial(encoder, closed=True, winner="left", left="high"),
    )
    yield Wrong(name, "no negative outlier", names("D-olive-2"), partial(encoder, signed=False))
    yield Wrong(name, "threshold 7", names("D-olive-3"), partial(encoder, threshold=7.0))
    yield Wrong(
        name, "threshold 7, closed", names("D-olive-3", "D-olive-4"), partial(encoder, threshold=7.0, closed=True)
    )
    yield Wrong(name, "the identifier is 1001", (), partial(encoder, mark=9))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, pair=hands.seventh))
    yield Wrong(name, "flags exchanged", names("port_swap"), _flags)
    yield Wrong(name, "saturated a row late", names("row_shift"), partial(wired, saturated=hands.late))
    halves = partial(ran, change=lambda inputs: {"value": inputs["value"][..., ::-1]})
    yield Wrong(name, "values exchanged", names("lane_permutation"), halves)


def stages() -> Iterator[Wrong]:
    """olive_requant."""
    name = "olive_requant-int4"
    yield Wrong(name, "sums cut off to float32", names("D-olive-42"), partial(stage, sums="cut"))
    yield Wrong(name, "one scale, then the other", names("D-olive-42"), partial(stage, order="apart"))
    yield Wrong(name, "one rounding to fp16", names("D-olive-42"), partial(stage, direct=True))
    yield Wrong(name, "the bias behind fp16", names("D-olive-55"), partial(stage, bias="behind"))
    yield Wrong(name, "fp16 cut off", names("D-arith-2|rounding"), partial(stage, cut=True))
    finite = names("D-olive-52|saturate|D-arith-2")
    yield Wrong(name, "stops at 65504", finite, partial(stage, infinite=False))
    yield Wrong(name, "float32 is encoded", names("D-olive-54"), partial(stage, source="single"))
    yield Wrong(name, "times the reciprocal", names("D-olive-25"), partial(stage, reciprocal=True))
    yield Wrong(name, "nibbles swapped", names("D-olive-1|nibble_swap|bit_swap"), partial(stage, left="high"))
    yield Wrong(name, "threshold 7", names("D-olive-3"), partial(stage, threshold=7.0))
    yield Wrong(name, "normal ties away from 0", names("D-olive-7|rounding"), partial(stage, ties="away"))
    both = names("D-arith-2|rounding", "D-olive-1|nibble_swap|bit_swap")
    yield Wrong(name, "fp16 cut off, nibbles swapped", both, partial(stage, cut=True, left="high"))
    both = names("D-olive-42", "D-olive-3")
    yield Wrong(name, "one scale, then the other, threshold 7", both, partial(stage, order="apart", threshold=7.0))
    turned = partial(wired, y=lambda words: words[:, ::-1], overflow=lambda words: words[:, ::-1])
    yield Wrong(name, "outputs exchanged", names("lane_permutation"), turned)
    yield Wrong(name, "all outputs a row late", names("row_shift"), partial(late, 1))
    yield Wrong(name, "one wrong row", (), partial(wired, y=hands.single))
    yield Wrong(name, "scrambled rows", (), partial(wired, y=hands.scrambled))


def _flags(golden: Golden) -> Arrays:
    answers = wired(golden)
    return {**answers, "out.saturated": answers["out.raised"], "out.raised": answers["out.saturated"]}


def macs() -> Iterator[Wrong]:
    """olive_mac and olive_pe8."""
    name = "olive_mac-wrap"
    yield Wrong(name, "saturates", names("D-olive-33|saturate"), partial(mac, saturate=True))
    yield Wrong(name, "shift of 4 bits", names("width|bit_stuck"), partial(mac, shift=15))
    yield Wrong(name, "b_int without sign", (), partial(mac, unsigned=True))
    yield Wrong(name, "a load adds", (), partial(mac, load="add"))
    yield Wrong(name, "acc a row late", names("row_shift"), partial(wired, acc=hands.late))
    yield Wrong(name, "product of 7 bits", names("width|bit_stuck"), partial(wired, product=lambda words: words & 127))
    yield Wrong(
        name,
        "saturates, overflow never",
        names("D-olive-33|saturate", "bit_stuck|width|lane"),
        lambda golden: wired(golden, mac(golden, saturate=True), overflow=np.zeros_like),
    )
    yield Wrong(name, "the flag stays", (), partial(mac, sticky=True))
    name = "olive_mac-saturate"
    yield Wrong(name, "wraps", names("D-olive-33|wrap"), partial(mac, saturate=False))
    yield Wrong(name, "saturates at 31 bits", (), partial(mac, saturate=True, bits=31))
    name = "olive_pe8-wrap"
    yield Wrong(name, "saturates", names("D-olive-33|saturate"), partial(pe8, saturate=True))
    yield Wrong(name, "sign and magnitude", names("D-olive-36"), partial(pe8, split="magnitude"))
    order = names("D-olive-37|lane_permutation")
    yield Wrong(name, "elements in another order", order, partial(pe8, order=(3, 2, 1, 0)))
    yield Wrong(
        name,
        "saturates, sign and magnitude",
        names("D-olive-33|saturate", "D-olive-36"),
        partial(pe8, saturate=True, split="magnitude"),
    )
    yield Wrong(name, "middle partials exchanged", names("lane_permutation"), partial(wired, partial=_middle))
    yield Wrong(name, "shift of element 2 one less", names("constant"), partial(wired, shift=in_lane(2, plus(-1))))
    yield Wrong(name, "ulp in every seventh row", (), partial(wired, acc=hands.seventh))


def _middle(words: np.ndarray) -> np.ndarray:
    return words[:, [0, 2, 1, 3]]


def products() -> Iterator[Wrong]:
    """olive_edp."""
    name = "olive_edp-int8_int8"
    yield Wrong(name, "saturates", names("D-olive-33|saturate"), partial(edp, saturate=True))
    yield Wrong(
        name,
        "a chain that saturates",
        names("D-olive-33|saturate", "D-olive-34"),
        partial(edp, saturate=True, chain=True),
    )
    yield Wrong("olive_edp-int8_int8_saturate", "a chain", names("D-olive-34"), partial(edp, saturate=True, chain=True))
    name = "olive_edp-int4_flint4"
    yield Wrong(name, "biases exchanged", names("port_swap"), partial(edp, biases=True))
    yield Wrong(name, "nibbles of B", names("D-olive-1|nibble_swap"), partial(edp, left="high"))
    yield Wrong(
        name,
        "nibbles of B, saturates",
        names("D-olive-1|nibble_swap", "D-olive-20|saturate"),
        partial(edp, left="high", top="saturate"),
    )
    yield Wrong(name, "flint's own pairs (products stay), d + 1", names("constant"), partial(edp, flint="page", more=1))
    swapped = partial(ran, change=lambda inputs: {"c": inputs["c"].astype("<i4").byteswap()})
    yield Wrong(name, "bytes of c", names("byte_swap"), swapped)
    yield Wrong(name, "the last product is missing", (), partial(edp, terms=15))
    yield Wrong(name, "negative outliers count positive", (), partial(edp, positive=True))
    yield Wrong(name, "one wrong row", (), partial(wired, d=hands.single))


def tiles() -> Iterator[Wrong]:
    """mmaovp and olive_systolic."""
    name = "mmaovp-i4_f4"
    yield Wrong(name, "biases exchanged", names("D-olive-21|port_swap"), partial(tile, biases=True))
    yield Wrong(
        name,
        "biases exchanged, nibbles of B",
        names("D-olive-21|port_swap", "D-olive-1|nibble_swap"),
        partial(tile, biases=True, left="high"),
    )
    turned = partial(wired, d=lambda words: words[:, TRANSPOSED8])
    yield Wrong(name, "D column by column", names("lane_permutation"), turned)
    flipped = partial(ran, change=lambda inputs: {"c": inputs["c"][..., TRANSPOSED8]})
    yield Wrong(name, "C column by column", names("lane_permutation"), flipped)
    yield Wrong(
        name,
        "element 63 stale",
        names("row_shift"),
        partial(wired, d=in_lane(63, hands.late), overflow=in_lane(63, hands.late)),
    )
    yield Wrong("mmaovp-i8_i8", "saturates", names("D-olive-33|saturate"), partial(tile, saturate=True))
    yield Wrong("mmaovp-i8_i8", "every seventh row", (), partial(wired, d=hands.seventh))
    name = "olive_systolic-int4_flint4"
    yield Wrong(name, "nibbles of B", names("D-olive-1|nibble_swap"), partial(tile, left="high"))
    yield Wrong(name, "biases exchanged", names("port_swap"), partial(tile, biases=True))
    yield Wrong(
        name,
        "nibbles of B, saturates",
        names("D-olive-1|nibble_swap", "D-olive-20|saturate"),
        partial(tile, left="high", top="saturate"),
    )
    turned = partial(wired, d=lambda words: words[:, TRANSPOSED])
    yield Wrong(name, "D column by column", names("lane_permutation"), turned)
    dead = partial(wired, d=lambda words: np.where(np.arange(30) % 6 == 5, 0, words))
    yield Wrong(name, "the last column is 0", names("lane|bit_stuck|width"), dead)
    yield Wrong(name, "scrambled rows", (), partial(wired, d=hands.scrambled))


def clocked() -> Iterator[Wrong]:
    """olive_edp_clocked and mmaovp_clocked."""
    for name in ("olive_edp_clocked-int4_flint4", "mmaovp_clocked-i4_i4"):
        held = names("D-arith-20")
        yield Wrong(name, "outputs 0 unless valid", held, partial(model_olive.gated, zero=True))
        yield Wrong(name, "valid an edge late", names("row_shift"), partial(wired, valid=hands.late))
        yield Wrong(name, "all outputs an edge late", names("row_shift"), partial(late, 1))
        yield Wrong(name, "valid until the next start", names("D-arith-21"), model_olive.lasting)
        yield Wrong(name, "busy and valid exchanged", names("port_swap"), _handshake)
        yield Wrong(
            name,
            "outputs 0 unless valid, valid until the next start",
            names("D-arith-20", "D-arith-21"),
            lambda golden: {
                **model_olive.gated(golden, zero=True),
                "out.valid": model_olive.lasting(golden)["out.valid"],
            },
        )
        swapped = partial(ran, change=lambda inputs: {"bias_a": inputs["bias_b"], "bias_b": inputs["bias_a"]})
        yield Wrong(name, "biases exchanged", names("port_swap|D-olive-21"), swapped)
        yield Wrong(name, "one wrong row", (), partial(wired, d=hands.single))


def arrays() -> Iterator[Wrong]:
    """olive_systolic_clocked."""
    name = "olive_systolic_clocked-int4_flint4"
    first, shown = names("D-olive-38|D-olive-1|nibble_swap"), names("D-olive-51")
    yield Wrong(name, "the right element enters first", first, partial(model_olive.systolic, model_olive.RightFirst))
    yield Wrong(name, "the bottom row shows always", shown, partial(model_olive.systolic, model_olive.ShowsBottom))
    both = names("D-olive-38|D-olive-1|nibble_swap", "D-olive-51")
    yield Wrong(name, "right element first, bottom row always", both, partial(model_olive.systolic, model_olive.Both))
    yield Wrong(name, "saturates", names("D-olive-33|saturate"), partial(ran, overflow="saturate"))
    turned = partial(wired, south=lambda words: words[:, ::-1], south_overflow=lambda words: words[:, ::-1])
    yield Wrong(name, "columns exchanged", names("lane_permutation"), turned)
    dead = partial(wired, south=in_lane(1, lambda words: words * 0))
    yield Wrong(name, "column 1 is 0", names("lane|bit_stuck|width"), dead)
    yield Wrong(name, "all outputs an edge late", names("row_shift"), partial(late, 1))
    yield Wrong(name, "one wrong row", (), partial(wired, south=hands.single))


def _handshake(golden: Golden) -> Arrays:
    answers = wired(golden)
    return {**answers, "out.busy": answers["out.valid"], "out.valid": answers["out.busy"]}
