"""The code of the Harmonia schemes, as one object."""

from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.cost import absent, costs
from refemu.models.schemes.harmonia.machine.block import machine
from refemu.models.schemes.harmonia.machine.options import HarmoniaMachine
from refemu.models.schemes.harmonia.prepare import prepare
from refemu.models.schemes.harmonia.shape import of_shape
from refemu.models.schemes.harmonia.taps import tapped
from refemu.models.schemes.kind import SchemeKind

SCHEME = SchemeKind(
    config=HarmoniaConfig,
    prepare=prepare,
    taps=tapped,
    accelerator=machine,
    cost=costs,
    options=HarmoniaMachine,
    shape=of_shape,
    absent=absent,
    part_cost="Harmonia's accelerator computes K and V into its cache, so its halves have none",
)
