"""Golden cases of layer_step: the histories of head_step for all KV heads of a layer. [leankv Algorithm 1, §5.3]

This module describes stimuli only; the descriptor, and with it every answer, is in layer_step.py.
"""

from collections.abc import Iterator

from refemu.units.leankv.cases.head_step import closes as closes
from refemu.units.leankv.cases.head_step import legal as legal
from refemu.units.leankv.cases.head_step import of_heads
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Kind


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    yield from of_heads("layer_step", config, kind, seed)
