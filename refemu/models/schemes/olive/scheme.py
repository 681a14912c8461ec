"""The code of the OliVe schemes and of scheme `olive-study`, as one object each."""

from refemu.models.schemes.kind import SchemeKind
from refemu.models.schemes.olive import decoder, study
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.config import OliveConfig, OliveStudyConfig
from refemu.models.schemes.olive.cost import absent, costs
from refemu.models.schemes.olive.machine import machine
from refemu.models.schemes.olive.shape import of_shape
from refemu.models.schemes.olive.taps import tapped

SCHEME = SchemeKind(
    config=OliveConfig,
    prepare=decoder.prepare,
    taps=tapped,
    accelerator=machine,
    cost=costs,
    part_cost=costs,
    options=OliveMachine,
    shape=of_shape,
    absent=absent,
)
STUDY = SchemeKind(config=OliveStudyConfig, prepare=study.prepare)
