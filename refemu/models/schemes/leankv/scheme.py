"""The code of the LeanKV schemes, as one object."""

from refemu.models.schemes.kind import SchemeKind
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.cost import costs
from refemu.models.schemes.leankv.layers import prepare
from refemu.models.schemes.leankv.machine.block import machine
from refemu.models.schemes.leankv.taps import tapped

SCHEME = SchemeKind(config=LeanKvConfig, prepare=prepare, taps=tapped, accelerator=machine, cost=costs, part_cost=costs)
