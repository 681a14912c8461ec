"""Devices that run: the unit in another configuration, or with inputs other than the testbench's."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.integers import limits
from refemu.golden.files import fields
from refemu.golden.grade.answers import PIECE, Answers, values
from refemu.golden.make.rows import Block, evaluate
from refemu.units import parameters
from refemu.units.ports import OutsidePort
from refemu.units.unit import AnyUnit, Cases
from refemu.units.variant import Device

Inputs = dict[str, np.ndarray]
Change = Callable[[Inputs, np.ndarray], Mapping[str, np.ndarray]]
FIRST, GROWTH = 8, 8  #: cases of the first part of a block, and how much the next are larger
TRIES = 64  #: evaluations of one block, at most, where a device cannot take some of its cases


def wrong(answers: Answers, device: Device, change: Change | None = None, whole: bool = True) -> np.ndarray:
    """Rows in which a device differs: bool (rows,).

    change: what the device sees of the stimulus of a block, of the same shape; from the stimulus, and the number of the
    case before each in a stream. whole: all of them, not only those of the first part of a block that has some. Cases
    that the device cannot take say nothing; Refused and RefusedType where it can take none.
    """
    different, refusal, taken, row = np.zeros(answers.rows, np.bool_), None, False, 0
    for block, seen in stimuli(answers, change):
        rows = block.shape[1]
        for first, stop, got in _parts(answers, device, block, seen, 0 if whole else FIRST):
            if isinstance(got, Block | OutsidePort):
                here = block.pick(slice(first, stop))
                some = unlike(answers, here, got) if isinstance(got, Block) else outside(answers, here, got)
                different[row + first * rows : row + stop * rows] = some
                taken = True
                if some.any() and not whole:
                    return different
            else:
                refusal = got
        row += block.shape[0] * rows
    if refusal is not None and not taken:
        raise refusal
    return different


def stimuli(answers: Answers, change: Change | None = None) -> Iterator[tuple[Block, Inputs]]:
    """Pieces of the blocks, and what the device sees of their stimulus."""
    for block in answers.blocks:
        cases, rows = block.shape
        step = max(1, PIECE // rows)
        for start in range(0, cases, step):
            lead = min(start, 1)  # the case before: a late input has its values
            inputs = values(answers.unit, answers.config, block.pick(slice(start - lead, start + step)))
            count = len(next(iter(inputs.values())))
            seen = dict(change(inputs, np.arange(count) - 1)) if change else inputs
            yield block.pick(slice(start, start + step)), {name: array[lead:] for name, array in seen.items()}


def _parts(
    answers: Answers, device: Device, block: Block, inputs: Inputs, size: int = 0
) -> Iterator[tuple[int, int, Block | Refused | RefusedType]]:
    """Answers or errors of parts of a block that grow from `size` cases, halved if the device rejects some.

    size: 0 for one part.
    """
    todo: list[tuple[int, int]] = []
    tries, start, size = 0, 0, size or block.shape[0]
    while start < block.shape[0]:
        todo.insert(0, (start, min(start + size, block.shape[0])))
        start, size = start + size, size * GROWTH
    while todo:
        first, stop = todo.pop()
        tries += 1
        try:
            some = {name: array[first:stop] for name, array in inputs.items()}
            cases = Cases(block.cases.kind, block.cases.why, some)
            yield first, stop, evaluate(answers.unit, device.config, cases, compiled_from=1, device=device)
        except OutsidePort as error:
            yield first, stop, error
        except (Refused, RefusedType) as error:
            if stop - first == 1 or tries >= TRIES:
                yield first, stop, error
            else:
                middle = (first + stop) // 2
                todo += [(middle, stop), (first, middle)]


def readable(unit: AnyUnit, answers: Answers, block: Block) -> np.ndarray:
    """Rows of a block of `answers` in which the readable form of `unit` differs: bool (cases * rows,).

    unit: that of `answers`, or a mutant, whose tables and defaults may differ: it has the configuration of that name.
    """
    config = answers.config if unit is answers.unit else unit.config(parameters.text(answers.unit, answers.config))
    try:
        result = unit.evaluate(config, values(answers.unit, answers.config, block), jit=False)
    except OutsidePort as error:
        return outside(answers, block, error)
    return _unlike_values(answers, block, vars(result))


def outside(answers: Answers, block: Block, error: OutsidePort) -> np.ndarray:
    """Rows of a block that differ, of a device with values that its ports cannot hold: bool (cases * rows,)."""
    different = _unlike_values(answers, block, error.arrays)
    for port in answers.ports.values():
        if port.name in error.outside:
            different |= error.outside[port.name]
    return different


def _unlike_values(answers: Answers, block: Block, got: Mapping[str, np.ndarray]) -> np.ndarray:
    """As `unlike`, of values by output; one that does not fit the port of the unit differs."""
    rows = block.shape[0] * block.shape[1]
    different, arrays = np.zeros(rows, np.bool_), {}
    for name, port in answers.ports.items():
        array = np.asarray(got[port.name])
        if array.dtype.kind in "iu":
            low, high = limits(port.bits, port.signed)
            bad = (array < low) | (array > high)
            different |= bad.reshape(rows, -1).any(axis=1)
            array = np.where(bad, array.dtype.type(0), array)
        arrays[name] = fields.encode(array, port, name).reshape(block.arrays[name].shape)
    different |= unlike(answers, block, Block(block.cases, arrays, block.flags))
    return different


def kept(answers: Answers) -> np.ndarray:
    """Rows in which a device without resets between cases differs, in the order of the set: bool (rows,).

    Only those of the first piece if it has some.
    """
    rows, here, piece = next(answers.pieces())
    different = np.zeros(answers.rows, np.bool_)
    different[rows] = _kept(piece)[here]
    return different if piece is answers or different.any() else _kept(answers)


def _kept(answers: Answers) -> np.ndarray:
    """The same, of all rows."""
    blocks = [values(answers.unit, answers.config, block) for block in answers.blocks]
    joined = {
        name: np.concatenate([inputs[name].reshape(1, -1, *inputs[name].shape[2:]) for inputs in blocks], axis=1)
        for name in blocks[0]
    }
    got = evaluate(answers.unit, answers.config, Cases("edge", "all cases without a reset", joined), compiled_from=1)
    parts, first = [], 0
    for block in answers.blocks:
        cases, rows = block.shape
        arrays = {
            name: array[:, first : first + cases * rows].reshape(cases, rows, *array.shape[2:])
            for name, array in got.arrays.items()
        }
        parts.append(unlike(answers, block, Block(block.cases, arrays, block.flags)))
        first += cases * rows
    return np.concatenate(parts)


def unlike(answers: Answers, block: Block, got: Block) -> np.ndarray:
    """Rows of a block in which an output differs from the answer in a bit that counts: bool (cases * rows,)."""
    different = np.zeros(block.shape[0] * block.shape[1], np.bool_)
    for name, port in answers.ports.items():
        bits = (block.arrays[name] ^ got.arrays[name]) & block.mask(name, port.bits)
        different |= (bits.reshape(len(different), -1) != 0).any(axis=1)
    return different
