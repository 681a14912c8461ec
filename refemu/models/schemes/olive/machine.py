"""OliVe's machine on a block: inputs through the pair encoder, linear layers through the systolic array.

Paper: [olive §3.4, §4.3, Fig. 8]. Everything else of a block stays in fp16 outside the machine (D-olive-32). Results
are compared before and after the rescale: the 32-bit sums, and what the scheme rounds to fp16 behind them (D-olive-42).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu import units
from refemu.formats.olive.ovp import quotient
from refemu.models.machine.report import Absent, Cost, Operation, differences
from refemu.models.machine.runner import Call
from refemu.models.schemes.olive.linear import Part, Plain, Product, Weight
from refemu.models.schemes.olive.tap_sums import bias, operand, standard
from refemu.models.schemes.olive.taps import encoder_config, patterns
from refemu.units.olive.olive_systolic_clocked import multiply

ARRAY = {"rows": 64, "cols": 64}  #: 4-bit elements [olive §4.3, Tbl. 11]
OUTSIDE = {
    "norm": "norms are computed in fp16 (D-olive-32)",
    "rotate": "rotary positions are computed in fp16 (D-olive-32)",
    "attention": "the products with keys and values, and the softmax, are computed in fp16 (D-olive-32)",
    "activation": "the activation is computed in fp16 (D-olive-32)",
    "add": "the residual sum is computed in fp16 (D-olive-32)",
}


def machine(prepared: Any, layer: int, calls: Sequence[Call]) -> tuple[list[Operation], list[Absent]]:
    """Operations of the block's linear layers, and what stays outside.

    Parameters
    ----------
    prepared : Olive
        Decoder under an OliVe scheme.
    layer : int
        Block.
    calls : sequence of Call
        What its parts took and gave.

    Returns
    -------
    operations, absent : list
        In the order of the block.
    """
    operations: list[Operation] = []
    absent: list[Absent] = []
    for call in calls:
        if call.part != "linear":
            continue
        names, x = call.inputs
        outputs = dict(zip((f"blk.{layer}.{name}" for name in names), call.output, strict=True))
        for part in prepared.group(layer, names):
            reason = refusal(part)
            if reason:
                absent += [Absent(name, reason) for name in part.names]
            else:
                operations += _part(prepared, part, x, outputs)
    return operations, absent + [Absent(f"blk.{layer}.{name}", reason) for name, reason in _outside(prepared).items()]


def _outside(prepared: Any) -> dict[str, str]:
    rotary = prepared.model.positions == "rotary"
    return {name: reason for name, reason in OUTSIDE.items() if rotary or name != "rotate"}


def refusal(part: Part | Plain) -> str:
    """The reason why a part is not on the machine; nothing where it is."""
    if isinstance(part, Plain):
        return "the layer is not quantized, or only its weights are (D-olive-32, D-olive-41)"
    if not standard(part.fmt, *(weight.format for weight in part.weights)):
        return "no decoder of the array reads these outliers (D-olive-14)"
    return ""


def _part(prepared: Any, part: Part, x: np.ndarray, outputs: dict[str, np.ndarray]) -> Iterator[Operation]:
    """The encoder, then a product for every linear layer."""
    product = part(x)
    yield _encoded(part, x, product)
    for name, weight in zip(part.names, part.weights, strict=True):
        yield _multiplied(prepared, part, weight, product, part.columns[name], outputs[name])


def _encoded(part: Part, x: np.ndarray, product: Product) -> Operation:
    """The pairs of the input."""
    assert part.input is not None
    name, unit = encoder_config(part.fmt), units.find("ovp_encoder")
    assert name is not None
    values = patterns(quotient(x, np.asarray(part.input.scale), -1), 2 * product.pairs.shape[1])
    answer = unit.evaluate(unit.configs[name], {"value": values})
    return Operation(
        f"{part.names[0]}.input",
        unit.name,
        dict(unit.configs[name]),
        x.shape,
        product.pairs.size,
        differences(answer.pair, product.pairs.reshape(-1).astype(answer.pair.dtype)),
        0,
        words={"values": x.size, "pairs": product.pairs.size},
        kind="quantize",
        cost=Cost(conversions=2 * answer.pair.size),
    )


def array_config(part: Part, weight: Weight) -> dict[str, Any]:
    """Parameters of the array for a linear layer; types of the other width stay at their defaults."""
    kinds = {"a": operand(part.fmt), "b": operand(weight.format)}
    if weight.format.width == 8:
        kinds = {"eight": kinds["a"]}
    return {**ARRAY, **kinds, "overflow": str(part.overflow)}


def _multiplied(
    prepared: Any, part: Part, weight: Weight, product: Product, columns: slice, output: np.ndarray
) -> Operation:
    """A linear layer on the array: its sums, and its outputs behind the rescale, beside the scheme's."""
    pairs, wide = weight.pairs(), weight.format.width == 8
    config, biases = array_config(part, weight), (bias(part.fmt), bias(weight.format))
    answer = multiply(product.pairs, pairs, biases, wide=wide, **config)
    rescaled = answer.d.astype(np.float32) * part.rescale[columns]  # fl32(fl32(acc) * fl32(s_a * s_w)) (D-olive-42)
    before = rescaled.view(np.uint32) != product.outputs[:, columns].view(np.uint32)
    after = prepared.finish([weight.name], rescaled).view(np.uint32) != output.view(np.uint32)
    down, across = ARRAY["rows"] >> wide, ARRAY["cols"] >> wide
    west = len(product.pairs) * -(-len(pairs) // across) * pairs.shape[1]
    moved = {"activations": west, "weights": answer.decodes - west}
    return Operation(
        weight.name,
        "olive_systolic_clocked",
        {**config, "wide": wide},
        (*answer.d.shape, 2 * pairs.shape[1]),
        answer.d.size,
        int(np.count_nonzero(before | after)),
        answer.cycles,
        {
            "elements": answer.macs / (answer.cycles * down * across),
            "decoders": answer.decodes / (answer.cycles * (down + across)),
        },
        {**moved, "sums": answer.d.size},
        "linear",
        Cost({mode(part, weight): answer.macs}, words=moved, cycles=answer.cycles),
    )


def mode(part: Part, weight: Weight) -> str:
    """Mode of the array's products: both operand types."""
    return f"{operand(part.fmt)} x {operand(weight.format)}"
