"""Compiled twin of layer_step: that of head_step, for all KV heads of a layer. [leankv §5.3, §6.1]"""

from collections.abc import Sequence
from typing import Any

from refemu.units.derived import Arrays, twin
from refemu.units.leankv.layer_step import UNIT
from refemu.units.leankv.twins.head_step import walk


@twin(UNIT)
def run(device: Any, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All devices together."""
    return walk(device, UNIT.run, inputs, outputs)
