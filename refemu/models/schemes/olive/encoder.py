"""Schemes `olive-4` and `olive-8` on BERT-like encoders: query, key, value, attention output, both feed-forward layers.

y = fl32(fl32(acc) * fl32(s_a * s_w)), + bias in float32, rounded to fp16 [olive §4]. Everything else is scheme `fp16`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import encoder
from refemu.models.schemes.fp16 import Fp16Config
from refemu.models.schemes.fp16_encoder import Fp16Encoder
from refemu.models.schemes.olive_layers import HEAD, Observing, OliveLayers
from refemu.models.schemes.scheme import silent

if TYPE_CHECKING:
    from refemu.models.model import Model
    from refemu.models.schemes.olive import OliveConfig


class OliveEncoder(OliveLayers, Fp16Encoder):
    """An encoder under an OliVe scheme."""

    def __init__(self, model: "Model", config: "OliveConfig", *rest: Any) -> None:
        """rest: as `OliveLayers`. Refuses an output matrix at 8 bits: an encoder has none."""
        if HEAD in config.eight_bit:
            raise Refused(f"olive: eight_bit names {HEAD}, and {model.name} is an encoder without one")
        super().__init__(model, config, *rest)

    @staticmethod
    def calibration(config: "OliveConfig", model: "Model", given: Any) -> list[Sequence[int]]:
        """The texts to calibrate on, as token ids."""
        return batch(config, model, given)

    def calibrate(self, model: "Model", texts: Sequence[Sequence[int]]) -> None:
        """Freeze the scale and type of every linear input, in model order, on all texts at once."""
        if self.parts():
            encoder.encode(self if self._olive.calibration == "sequential" else EncoderObserver(model, self), texts)


class EncoderObserver(Observing, Fp16Encoder):
    """An encoder under scheme `fp16` that freezes the inputs of an OliVe scheme."""

    def __init__(self, model: "Model", target: OliveEncoder) -> None:
        super().__init__(model, Fp16Config(), target.backend, silent)
        self._target = target


def batch(config: "OliveConfig", model: "Model", given: Any) -> list[Sequence[int]]:
    """Token ids of the texts to calibrate on: those given, one text or several, or the start of the shipped text."""
    if given is None:
        from refemu.models import text

        given = model.tokenizer.sentence(text.calibration(), config.calibration_tokens)
    if len(given) == 0:
        raise Refused("olive: act_bits needs calibration tokens, got none")
    several = all(np.ndim(one) for one in given)
    return [list(one)[: model.config.context] for one in (given if several else [given])]
