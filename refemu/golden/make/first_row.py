"""Choice of row 0 of a set, which distinguishes a working device from an absent one.

A two-state simulator that loads nothing sees zeros in and zeros expected, and passes. So the first stimulus is not
zero, and its answer is neither zero nor what an all-zero stimulus gives.
"""

from collections.abc import Mapping

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.make.rows import TWIN_FROM, Block, evaluate
from refemu.units.unit import AnyUnit, Cases, Config, Kind

# where a first row is taken from if the wanted kinds have none
_SPARE_KINDS: tuple[Kind, ...] = ("paper", "edge", "random")


def led(unit: AnyUnit, config: Config, blocks: list[Block], twin_from: int = TWIN_FROM) -> list[Block]:
    """`blocks` with a telling row 0.

    The first block that has a telling case comes first, rotated to it; if none has, one such case of another kind goes
    before them all. twin_from: as for `rows.evaluate`. Refused: no blocks, and a unit without any telling case.
    """
    if not blocks:
        raise Refused(f"{unit.name}: no cases of the wanted kinds")
    silent = _silence(unit, config, blocks[0], twin_from)
    for position, block in enumerate(blocks):
        if (telling := _telling(block, silent)).size:
            cases = np.arange(block.shape[0])
            rotated = block.pick(np.roll(cases, -int(telling[0]))) if telling[0] else block
            return [rotated, *blocks[:position], *blocks[position + 1 :]]
    return [_spare(unit, config, silent), *blocks]


def _silence(unit: AnyUnit, config: Config, block: Block, twin_from: int) -> dict[str, np.ndarray]:
    """Outputs of one row of zeros; {} if the unit refuses zeros."""
    zeros = {
        name: np.zeros(
            (1,) + (1,) * (unit.timing == "event") + np.shape(array)[1 + (unit.timing == "event") :], np.uint8
        )
        for name, array in block.cases.inputs.items()
    }
    try:
        answer = evaluate(unit, config, Cases(block.cases.kind, "all inputs zero", zeros), twin_from)
    except (Refused, RefusedType):
        return {}
    return {name: array[0, 0] for name, array in answer.arrays.items() if name.startswith("out.")}


def _telling(block: Block, silent: Mapping[str, np.ndarray]) -> np.ndarray:
    """Cases whose first row has a stimulus and an answer that are not zero, the answer not that to zeros."""
    first = {name: array[:, 0].reshape(block.shape[0], -1) for name, array in block.arrays.items()}
    out = [name for name in first if name.startswith("out.")]
    stimulus = np.any([first[name].any(axis=1) for name in first if name.startswith("in.")], axis=0)
    answer = np.any([first[name].any(axis=1) for name in out], axis=0)
    other = np.any([(first[name] != silent.get(name, ~first[name])).any(axis=1) for name in out], axis=0)
    return np.flatnonzero(stimulus & answer & other)


def _spare(unit: AnyUnit, config: Config, silent: Mapping[str, np.ndarray]) -> Block:
    for kind in _SPARE_KINDS:
        for cases in unit.cases(config, kind, 0):
            block = evaluate(unit, config, cases)
            if (telling := _telling(block, silent)).size:
                why = f"{cases.why}; here because a set must not begin with a row that an empty simulation passes"
                spare = Cases(cases.kind, why, cases.inputs, cases.decision)
                return Block(spare, block.arrays, block.flags, block.care).pick(telling[:1])
    raise Refused(f"{unit.name}: no case tells a working device from an absent one")
