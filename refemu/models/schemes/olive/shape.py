"""Cost of a model of known sizes on OliVe's array, or on another accelerator of its area, without weights.

Paper: [olive §4.3, §5.4]. Decisions: D-olive-32 (what is not on the array), D-olive-61 (other accelerators).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby

from refemu.arith.checks import Refused
from refemu.models.machine.report import Absent, Blocks, Cost
from refemu.models.machine.shapes import Linear, Shape
from refemu.models.machine.work import Work
from refemu.models.schemes.fp16.cost import FP16
from refemu.models.schemes.olive import array_works as works
from refemu.models.schemes.olive import designs
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.array_works import Layer, Side
from refemu.models.schemes.olive.config import HEAD, OliveConfig
from refemu.models.schemes.olive.cost import products
from refemu.models.schemes.olive.designs import Mode
from refemu.models.schemes.olive.machine import HEAD_REASON, LEFT_OUT, OUTSIDE

Costs = list[tuple[str, Cost]]
OUTPUT = "head"  #: the output matrix


def of_shape(
    config: OliveConfig, shape: Shape, tokens: int, phase: str, batch: int, machine: OliveMachine
) -> tuple[list[Blocks], list[Absent]]:
    """Cost of all blocks, equal ones in sequence together, and of the head.

    tokens: of each prompt, or before the decode step. batch: requests. Raises Refused for layers that only weights
    decide.
    """
    if config.n_eight_bit:
        raise Refused(
            f"cost: n_eight_bit={config.n_eight_bit} chooses layers by the errors of weights, and a shape has none; "
            "name the layers in eight_bit"
        )
    new = tokens if phase == "prompt" else 1
    runs = groupby(range(shape.blocks), lambda block: _modes(config, shape, block, machine))
    blocks, left_out = list[Blocks](), dict(OUTSIDE)
    keys = tokens if phase == "prompt" else tokens + 1
    for modes, numbers in runs:
        mine = list(numbers)
        costs = _block(shape, dict(modes), batch, new, keys, machine)
        blocks.append(Blocks(mine[0], len(mine), tuple(costs)))
        left_out |= {name: LEFT_OUT for name, mode in modes if mode is None}
    if shape.vocab:
        mode = _mode(config, HEAD, None, machine)
        last = Linear(OUTPUT, shape.width, shape.vocab)
        blocks.append(Blocks(-1, 1, tuple(_group((last,), batch, [mode], False, (), machine))))
        left_out |= {} if mode else {OUTPUT: HEAD_REASON}
    return blocks, [Absent(name, reason) for name, reason in left_out.items()]


def _modes(config: OliveConfig, shape: Shape, block: int, machine: OliveMachine) -> tuple[tuple[str, Mode | None], ...]:
    """How each layer of a block is multiplied; None: not on the array."""
    wide = block < designs.eight_bit_blocks(machine.design, shape.blocks)
    names = [layer.name for group in shape.groups.values() for layer in group]
    if machine.design != "olive":
        return tuple((name, designs.mode(machine.design, wide)) for name in names)
    return tuple((name, _mode(config, name, block, machine)) for name in names)


def _mode(config: OliveConfig, name: str, block: int | None, machine: OliveMachine) -> Mode | None:
    full = {name, f"blk.{block}.{name}"}
    if config.act_bits is None or full & set(config.skip):
        return None
    eight = config.weight_bits == 8 or full & set(config.eight_bit)
    types = ("int8_repo" if config.preset == "repo" else "int8",) if eight else [f"{each}4" for each in config.types]
    bits = 8 if eight else 4
    side = Side(Fraction(bits), bits)
    kind = "/".join(types)
    return Mode(f"{kind} x {kind}", designs.QUARTER if eight else Fraction(1), side, side)


def _block(
    shape: Shape, modes: dict[str, Mode | None], batch: int, new: int, keys: int, machine: OliveMachine
) -> Iterator[tuple[str, Cost]]:
    there = [name for name, mode in modes.items() if mode]
    for tensor, layers in shape.groups.items():
        rows = batch * new * (layers[-1].active if tensor == "down_in" else 1)
        after = works.sources(layers[-1].name, there)
        yield from _group(layers, rows, [modes[layer.name] for layer in layers], shape.biases, after, machine)
        if tensor == "attn_in":
            yield "attention", _attention(shape, batch, new, keys, there)


def _group(
    layers: Sequence[Linear],
    rows: int,
    modes: Sequence[Mode | None],
    biased: bool,
    after: tuple[str, ...],
    machine: OliveMachine,
) -> Iterator[tuple[str, Cost]]:
    """Layers that read one tensor, which is encoded once for each mode."""
    for mode in dict.fromkeys(modes):
        mine = [layer for layer, each in zip(layers, modes, strict=True) if each == mode]
        k = mine[0].inputs
        if mode is None:
            for layer in mine:
                macs, words = rows * k * layer.outputs, {"activations": rows * k, "weights": k * layer.outputs}
                yield (
                    "linear",
                    Cost({FP16: macs}, words=words, works=(Work(layer.name, "linear", cycles=None, after=()),)),
                )
            continue
        waits = None if mine[0].experts > 1 else after
        encoded = works.quantized(mine[0].name, rows, k, mode.a, machine, waits)
        yield "quantize", Cost(conversions=rows * (k + k % 2), works=(encoded,))
        for layer in mine:
            yield from _products(layer, rows, mode, biased, encoded.name, machine)


def _products(
    layer: Linear, rows: int, mode: Mode, biased: bool, encoded: str, machine: OliveMachine
) -> Iterator[tuple[str, Cost]]:
    """A linear layer, or the experts of one that some token uses."""
    k, grid = layer.inputs + layer.inputs % 2, designs.grid(machine.design, mode, machine)
    for number, m in enumerate(layer.rows(rows) if layer.name != "down" else layer.rows(rows // layer.active)):
        name = layer.name if layer.experts == 1 else f"{layer.name}.{number}"
        product = Layer(name, m, layer.outputs, k, grid, mode.a, mode.b, biased, (encoded,))
        yield from products(product, mode.name, machine)


def _attention(shape: Shape, batch: int, new: int, keys: int, there: Sequence[str]) -> Cost:
    """Both products of every head, in fp16 outside (D-olive-32)."""
    pairs = new * keys if shape.encoder else new * keys - new * (new - 1) // 2
    macs = 2 * batch * pairs * shape.heads * shape.head_dim
    words = {
        "activations": batch * new * shape.heads * shape.head_dim,
        "kv": 2 * batch * pairs * shape.kv_heads * shape.head_dim,
    }
    record = Work("attention", "attention", cycles=None, after=works.sources("o", there))
    return Cost({FP16: macs}, words=words, works=(record,))
