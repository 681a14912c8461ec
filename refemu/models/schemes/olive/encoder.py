"""Schemes `olive-4` and `olive-8` on BERT-like encoders: query, key, value, attention output, both feed-forward layers.

y = fl32(fl32(acc) * fl32(s_a * s_w)), + bias in float32, rounded to fp16 [olive §4]. Everything else is scheme `fp16`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import text
from refemu.models.encoder import runtime
from refemu.models.model import Model
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.encoder import Fp16Encoder
from refemu.models.schemes.olive.config import HEAD, OliveConfig, OliveStudyConfig
from refemu.models.schemes.olive.layers import Observing, OliveLayers
from refemu.models.schemes.scheme import silent


class OliveEncoder(OliveLayers, Fp16Encoder):
    """An encoder under an OliVe scheme."""

    def __init__(self, model: Model, config: OliveConfig, *rest: Any) -> None:
        """rest: as `OliveLayers`. Raises Refused for an 8-bit output matrix, which an encoder does not have."""
        if HEAD in config.eight_bit:
            raise Refused(f"olive: eight_bit names {HEAD}, and {model.name} is an encoder without one")
        super().__init__(model, config, *rest)

    @staticmethod
    def calibration(config: OliveConfig, model: Model, ids: Any) -> list[Sequence[int]]:
        """The texts for `calibrate`, as token ids; see `batch`."""
        return batch(config, model, ids)

    def calibrate(self, model: Model, texts: Sequence[Sequence[int]]) -> None:
        """Freeze the scale and type of every linear input, in model order, on all texts at once."""
        if self.parts():

            def run() -> None:
                runner = self if self._olive.calibration == "sequential" else EncoderObserver(model, self)
                runtime.encode(runner, texts)

            self.search_inputs(texts, run)


class EncoderObserver(Observing, Fp16Encoder):
    """An encoder under scheme `fp16` that freezes the inputs of an OliVe scheme."""

    def __init__(self, model: Model, target: OliveEncoder) -> None:
        super().__init__(model, Fp16Config(), target.backend, silent)
        self._target = target


def batch(config: OliveConfig | OliveStudyConfig, model: Model, ids: Any) -> list[Sequence[int]]:
    """Token ids of the calibration texts: `ids` of one text or of several, or for None the shipped text's start."""
    if ids is None:
        ids = model.tokenizer.sentence(text.calibration(), config.calibration_tokens)
    if len(ids) == 0:
        raise Refused("olive: act_bits needs calibration tokens, got none")
    several = all(np.ndim(sentence) for sentence in ids)
    return [list(sentence)[: model.config.context] for sentence in (ids if several else [ids])]
