"""Devices that run: the unit in another configuration, or with inputs other than the testbench's."""

import sys
from collections.abc import Callable, Iterator

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.grade.answers import Answers, values
from refemu.golden.make.rows import Block, evaluate
from refemu.units.unit import AnyUnit, Cases
from refemu.units.variant import Device

Inputs = dict[str, np.ndarray]
TRIES = 64  #: most evaluations of a block if some of its cases are invalid for a device


def wrong(answers: Answers, device: Device, change: Callable[[Inputs], Inputs] | None = None) -> np.ndarray:
    """Rows in which a device differs: bool (rows,).

    change: the device's inputs for the stimulus of a block, in the same shape. Cases that are invalid for the device do
    not count. Raises Refused or RefusedType if all are invalid.
    """
    parts, refusal, taken = [], None, False
    for block in answers.blocks:
        inputs = values(answers.unit, answers.config, block)
        seen = change(inputs) if change else inputs
        cases, rows = block.shape
        different = np.zeros((cases, rows), np.bool_)
        for first, stop, got in _parts(answers, device, block, seen):
            if isinstance(got, Block):
                different[first:stop] = unlike(answers, block.pick(np.arange(first, stop)), got).reshape(-1, rows)
                taken = True
            else:
                refusal = got
        parts.append(different.reshape(-1))
    if refusal is not None and not taken:
        raise refusal
    return np.concatenate(parts)


def _parts(
    answers: Answers, device: Device, block: Block, inputs: Inputs
) -> Iterator[tuple[int, int, Block | Refused | RefusedType]]:
    """Answers to the cases of a block, halved while some are invalid for the device, and the errors."""
    todo, tries = [(0, block.shape[0])], 0
    while todo:
        first, stop = todo.pop()
        tries += 1
        try:
            some = {name: array[first:stop] for name, array in inputs.items()}
            cases = Cases(block.cases.kind, block.cases.why, some)
            yield first, stop, evaluate(answers.unit, device.config, cases, compiled_from=1, device=device)
        except (Refused, RefusedType) as error:
            if stop - first == 1 or tries >= TRIES:
                yield first, stop, error
            else:
                middle = (first + stop) // 2
                todo += [(middle, stop), (first, middle)]


def readable(unit: AnyUnit, answers: Answers, block: Block) -> Block:
    """Answers of the readable form of `unit` to the stimulus of a block of `answers`."""
    cases = Cases(block.cases.kind, block.cases.why, values(answers.unit, answers.config, block))
    return evaluate(unit, answers.config, cases, compiled_from=sys.maxsize)


def kept(answers: Answers) -> np.ndarray:
    """Rows in which a device without resets between cases differs, in the order of the set: bool (rows,)."""
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
