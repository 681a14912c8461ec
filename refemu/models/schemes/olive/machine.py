"""OliVe's accelerator on a block: inputs through the pair encoder, linear layers through array and output stage.

Paper: [olive §3.4, §4.3, Fig. 8]. The rest of a block is computed in fp16 outside the accelerator (D-olive-32).
Compared are the 32-bit sums of the array, and the results of the output stage before and after the rounding to fp16
(D-olive-42). The pairs of the stage are not: fp16 steps come between two linear layers.
"""

from collections.abc import Container, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.olive.ovp import Ovp, quotient
from refemu.models.machine.report import Absent, Call, Cost, Operation, differences, unchecked
from refemu.models.machine.work import Work
from refemu.models.schemes.olive import array_works as works
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.array_works import Layer, Side
from refemu.models.schemes.olive.linear import Part, Plain, Product, Weight
from refemu.models.schemes.olive.tap_sums import bias, operand, standard
from refemu.models.schemes.olive.taps import encoder_config, patterns
from refemu.units.olive.olive_requant import NO_BIAS
from refemu.units.olive.olive_systolic_clocked import multiply
from refemu.units.unit import Config

ARRAY = {"rows": 64, "cols": 64}  #: grid of 4-bit elements [olive §4.3, Tbl. 11]
OUTSIDE = {
    "norm": "norms are computed in fp16 (D-olive-32)",
    "rotate": "rotary positions are computed in fp16 (D-olive-32)",
    "attention": "the products with keys and values, and the softmax, are computed in fp16 (D-olive-32)",
    "activation": "the activation is computed in fp16 (D-olive-32)",
    "add": "the residual sum is computed in fp16 (D-olive-32)",
}


HEAD_REASON = "the output matrix is computed in fp16 (D-olive-32)"
LEFT_OUT = "the layer is not quantized, or only its weights are (D-olive-32, D-olive-41)"


def machine(
    prepared: Any, layer: int, calls: Sequence[Call], options: OliveMachine | None = None
) -> tuple[list[Operation], list[Absent]]:
    """Operations of the block's linear layers, in order, and those outside the accelerator."""
    options, there = options or OliveMachine(), on_array(prepared, layer)
    require(options)
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
                operations += _part(prepared, part, x, outputs, there, options)
    return operations, absent + [Absent(f"blk.{layer}.{name}", reason) for name, reason in outside(prepared).items()]


def require(machine: OliveMachine) -> None:
    """Raise Refused for another design: its values are not those of the scheme."""
    if machine.design != "olive":
        raise Refused(
            f"accelerator: design {machine.design} computes other values than the scheme; use `refemu cost --shape`"
        )


def on_array(prepared: Any, layer: int) -> list[str]:
    """Names of a block's linear layers on the array, without the block."""
    parts = [part for part in prepared.parts() if not refusal(part)]
    return [bare(name) for part in parts for name in part.names if name.startswith(f"blk.{layer}.")]


def bare(name: str) -> str:
    """The name of a linear layer without its block; the output matrix is the head."""
    return name.rpartition(".")[2] if name.startswith("blk.") else "head"


def side(fmt: Ovp) -> Side:
    """How an operand moves."""
    return Side(Fraction(fmt.width), fmt.width)


def encoder_of(part: Part, x: np.ndarray) -> tuple[str, int, int, Side]:
    """Arguments of the record of the encoder."""
    return bare(part.names[0]), *x.shape, side(part.fmt)


def layer_of(prepared: Any, part: Part, name: str, weight: Weight, tokens: int, machine: OliveMachine) -> Layer:
    """A linear layer as its record has it."""
    outputs, half = weight.pairs().shape
    wide, biases = weight.format.width == 8, prepared.biases([name])
    grid, after = (machine.rows >> wide, machine.cols >> wide), (f"encode.{bare(part.names[0])}",)
    sides = side(part.fmt), side(weight.format)
    return Layer(bare(weight.name), tokens, outputs, 2 * half, grid, *sides, biases is not None, after)


def outside(prepared: Any) -> dict[str, str]:
    """Steps of a block that are not on the array, and why."""
    rotary = prepared.model.positions == "rotary"
    return {name: reason for name, reason in OUTSIDE.items() if rotary or name != "rotate"}


def refusal(part: Part | Plain) -> str:
    """Why a part is not on the accelerator; None if it is."""
    if isinstance(part, Plain):
        return LEFT_OUT
    if not standard(part.fmt, *(weight.format for weight in part.weights)):
        return "no decoder of the array reads these outliers (D-olive-14)"
    return ""


def _part(
    prepared: Any,
    part: Part,
    x: np.ndarray,
    outputs: dict[str, np.ndarray],
    there: Container[str],
    options: OliveMachine,
) -> Iterator[Operation]:
    """The encoder, then a product and its outputs for every linear layer."""
    product = part(x)
    encoded = works.quantized(*encoder_of(part, x), options, works.sources(bare(part.names[-1]), there))
    yield _encoded(part, x, product, encoded)
    for name, weight in zip(part.names, part.weights, strict=True):
        columns = part.columns[name]
        layer = layer_of(prepared, part, name, weight, len(x), options)
        multiplied, stage = works.product(layer, options)
        operation, sums = _multiplied(part, weight, product, product.acc[:, columns], options, multiplied)
        yield operation
        yield _output(part, weight, sums, prepared.biases([name]), product.outputs[:, columns], outputs[name], stage)


def _encoded(part: Part, x: np.ndarray, product: Product, record: Work) -> Operation:
    """The pairs of the input."""
    assert part.input is not None
    unit, config = units.find("ovp_encoder"), encoding(part.fmt)
    values = patterns(quotient(x, np.asarray(part.input.scale), -1), 2 * product.pairs.shape[1])
    answer = unit.evaluate(config, {"value": values})
    return Operation(
        f"{part.names[0]}.input",
        unit.name,
        _named(config),
        x.shape,
        product.pairs.size,
        differences(answer.pair, product.pairs.reshape(-1).astype(answer.pair.dtype)),
        0,
        words={"values": x.size, "pairs": product.pairs.size},
        kind="quantize",
        cost=Cost(conversions=2 * answer.pair.size, works=(record,)),
        unchecked=unchecked(unit.name, config, "pair"),
    )


def array_config(part: Part, weight: Weight, options: OliveMachine | None = None) -> dict[str, Any]:
    """Parameters of the array for a linear layer; operand types of the other width have their defaults."""
    kinds = {"a": operand(part.fmt), "b": operand(weight.format)}
    if weight.format.width == 8:
        kinds = {"eight": kinds["a"]}
    sizes = ARRAY if options is None else {"rows": options.rows, "cols": options.cols}
    return {**sizes, **kinds, "overflow": str(part.overflow)}


def _multiplied(
    part: Part, weight: Weight, product: Product, due: np.ndarray, options: OliveMachine, record: Work
) -> tuple[Operation, np.ndarray]:
    """A linear layer on the array, and its sums."""
    pairs, wide = weight.pairs(), weight.format.width == 8
    config, biases = array_config(part, weight, options), (bias(part.fmt), bias(weight.format))
    array = config | {"a": "port", "b": "port"}  # one array for all layers (D-olive-63)
    types = {f"flint_{side}": int(config.get(side) == "flint4") for side in "ab"}
    answer = multiply(product.pairs, pairs, biases, wide=wide, **config)
    down, across = options.rows >> wide, options.cols >> wide
    west = len(product.pairs) * -(-len(pairs) // across) * pairs.shape[1]
    moved = {"activations": west, "weights": answer.decodes - west}
    operation = Operation(
        weight.name,
        "olive_systolic_clocked",
        {**array, "wide": wide, **({} if wide else types)},
        (*answer.d.shape, 2 * pairs.shape[1]),
        answer.d.size,
        int(np.count_nonzero(answer.d != due)),
        answer.cycles,
        {
            "elements": answer.macs / (answer.cycles * down * across),
            "decoders": answer.decodes / (answer.cycles * (down + across)),
        },
        {**moved, "sums": answer.d.size},
        "linear",
        Cost({mode(part, weight): answer.macs}, words=moved, cycles=answer.cycles, works=(record,)),
        unchecked=unchecked("olive_systolic_clocked", array, "south"),
    )
    return operation, answer.d


def _output(
    part: Part,
    weight: Weight,
    sums: np.ndarray,
    biases: np.ndarray | None,
    before: np.ndarray,
    after: np.ndarray,
    record: Work,
) -> Operation:
    """The sums at the output stage: fl32(fl32(acc) * fl32(s_a * s_w)) and fp16 words, compared with the scheme's."""
    unit, config = units.find("olive_requant"), encoding(part.fmt)
    answer = unit.evaluate(config, stage_inputs(part, weight, sums, biases))
    scaled, y = (_rows(words, sums.shape) for words in (answer.scaled, answer.y))
    wrong = scaled != before.view(np.uint32)
    wrong |= fp16.to_f32(fp16.values(y)).view(np.uint32) != after.view(np.uint32)
    return Operation(
        f"{weight.name}.output",
        unit.name,
        _named(config),
        sums.shape,
        sums.size,
        int(np.count_nonzero(wrong)),
        0,
        words={"sums": sums.size, "outputs": sums.size},
        kind="requant",
        cost=Cost(conversions=sums.size, works=(record,)),
        unchecked=unchecked(unit.name, config, "y"),
    )


def encoding(fmt: Ovp) -> Config:
    """Configuration of a pair encoder or output stage for a format: a ready one, or the format itself."""
    name = encoder_config(fmt)
    return Config(fmt=fmt) if name is None else units.find("ovp_encoder").configs[name]


def _named(config: Config) -> dict[str, str]:
    """Parameters as text; a format without outliers has no name."""
    return {name: value if isinstance(value, str) else repr(value) for name, value in config.items()}


def stage_inputs(part: Part, weight: Weight, sums: np.ndarray, biases: np.ndarray | None) -> dict[str, np.ndarray]:
    """Inputs of the output stage for a layer's sums: pairs of neighbours in a row, token by token.

    With an odd number of outputs the right lane of a token's last pair is 0.
    """
    assert part.input is not None
    tokens, outputs = sums.shape
    half = -(-outputs // 2)
    acc = np.zeros((tokens, 2 * half), np.int32)
    acc[:, :outputs] = sums
    scale_w, bias_words = np.ones(2 * half, np.float32), np.full(2 * half, NO_BIAS, np.uint16)
    scale_w[:outputs] = weight.scale
    if biases is not None:
        bias_words[:outputs] = fp16.bits(fp16.to_f16(biases))
    scale = np.asarray(part.input.scale, np.float32).view(np.uint32)
    lanes = {"scale_w": scale_w.view(np.uint32), "bias": bias_words}
    every = {name: np.tile(row.reshape(half, 2), (tokens, 1)) for name, row in lanes.items()}
    return {"acc": acc.reshape(-1, 2), "scale_a": scale, "scale_next": scale, **every}


def _rows(words: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Both lanes of every event as rows of tokens."""
    return words.reshape(shape[0], -1)[:, : shape[1]]


def mode(part: Part, weight: Weight) -> str:
    """Mode of the array's products: the types of both operands."""
    return f"{operand(part.fmt)} x {operand(weight.format)}"
