"""The code of the KLLM schemes, as one object."""

from refemu.models.schemes.kind import SchemeKind
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.cost import absent, costs
from refemu.models.schemes.kllm.machine.block import machine
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.prepare import prepare
from refemu.models.schemes.kllm.shape import of_shape
from refemu.models.schemes.kllm.taps import tapped

SCHEME = SchemeKind(
    config=KllmConfig,
    prepare=prepare,
    taps=tapped,
    accelerator=machine,
    cost=costs,
    part_cost=costs,
    options=KllmMachine,
    shape=of_shape,
    absent=absent,
)
