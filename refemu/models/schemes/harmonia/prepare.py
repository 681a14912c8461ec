"""Preparation of a decoder under a Harmonia scheme: smoothing factors, then quantized weights [harmonia §III-C]."""

from typing import Any

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.harmonia import search
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.scheme import Prepared, Progress


def prepare(config: HarmoniaConfig, model: Model, backend: Backend, calibration: Any, progress: Progress) -> Prepared:
    """Learn or read the factors of offline smoothing, then quantize the weights.

    calibration: token ids, or a `smoothing.Smoothing`; None stands for the file that the configuration names, for the
    factors that ship with the model, or for the shipped calibration text.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"harmonia: {model.name} is an encoder; the paper's caches need a decoder")
    if config.online and model.config.attention_cap:
        raise Refused(
            f"harmonia: offsets of K shift all logits of a query, which the soft cap of {model.name} does not leave "
            "without effect; use online=false (D-harmonia-56)"
        )
    smoothing = search.obtain(model, config, backend, calibration, progress)
    return Harmonia(model, config, backend, progress, smoothing)
