"""A server for a simulation in which a model runs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.models import text
from refemu.models.machine.shapes import Shape
from refemu.models.schemes import scheme_text
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.serving.by_model import ByModel
from refemu.models.schemes.leankv.serving.gpu import GPUS, Rates
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.models.schemes.leankv.serving.trace import Arrival

#: fields of a setting that only a simulation by shape reads
BY_SHAPE = ("shape", "memory_share", "quality", "high_share", "pruned_share", "check")


def build(config: Any, setting: Setting, trace: Sequence[Arrival]) -> tuple[ByModel, Rates]:
    """Prepare the model and its engine. Refused: a parameter changes nothing; RefusedType: another scheme."""
    from refemu import models

    if not isinstance(config, LeanKvConfig):
        raise RefusedType(f"simulate: scheme of a model must be one of LeanKV's, got {scheme_text.name(config)}")
    for field in dataclasses.fields(Setting):
        if field.name in BY_SHAPE and getattr(setting, field.name) != field.default:
            raise Refused(f"simulate: {field.name} changes nothing where a model runs; leave it out")
    if config.workers != 1:
        raise Refused(f"simulate: give workers as an option of its own, got {config.workers} in the scheme")
    model, gpu = models.load(str(setting.model)), lookup("gpu", setting.gpu, GPUS)
    slots = min(setting.slots, len(trace))
    length = config.max_len or setting.context
    scheme = dataclasses.replace(config, workers=setting.workers, max_len=length)
    ids = model.tokenizer.encode(text.default())
    server = ByModel(models.prepare(model, scheme), ids, slots, setting.preemption)
    sizes: Any = model.config
    shape = Shape(
        str(setting.model),
        sizes.blocks,
        sizes.width,
        sizes.heads,
        sizes.kv_heads,
        sizes.ffn,
        sizes.vocab,
        gated=sizes.gated,
        head_size=sizes.head_dim,
        experts=max(sizes.experts, 1),
        active=max(sizes.experts_used, 1),
    )
    return server, Rates(shape, gpu, setting.workers)
