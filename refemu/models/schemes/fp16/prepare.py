"""Preparation of a decoder or an encoder under scheme `fp16`: weights are rounded to fp16, nothing is calibrated."""

from typing import Any

from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.fp16.encoder import Fp16Encoder
from refemu.models.schemes.scheme import Progress


def prepare(
    config: Fp16Config, model: Model, backend: Backend, calibration: Any, progress: Progress
) -> Fp16 | Fp16Encoder:
    """Round the weights to fp16. calibration: not used."""
    kind = Fp16Encoder if isinstance(model.config, EncoderConfig) else Fp16
    return kind(model, config, backend, progress)
