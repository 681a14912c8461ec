"""The code of scheme `fp16`, as one object."""

from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.cost import costs
from refemu.models.schemes.fp16.prepare import prepare
from refemu.models.schemes.kind import SchemeKind

SCHEME = SchemeKind(config=Fp16Config, prepare=prepare, part_cost=costs)
