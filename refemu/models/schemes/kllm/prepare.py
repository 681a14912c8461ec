"""Preparation of a decoder under a KLLM scheme: a calibration, then encoded weights [kllm §III-A, §V-A]."""

from typing import Any

from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.schemes.kllm import calibrate
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.layers import Kllm
from refemu.models.schemes.kllm.rtn import KllmRtn
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.scheme import Prepared, Progress


def prepare(config: KllmConfig, model: Model, backend: Backend, calibration: Any, progress: Progress) -> Prepared:
    """Calibrate or read a calibration, then encode the weights; the baseline `rtn` needs none.

    calibration: token ids, or a `calibration.Calibration`; None: the file that the configuration names, or the shipped
    calibration text. A linear part of a mix calibrates after its attention, unless that is KLLM's, which calibrates
    with it on scheme `fp16` (D-mix-1).
    """
    if config.quantizer == "rtn":
        return KllmRtn(model, config, backend, progress)
    config.require_gains(model)
    attention = model.attention if isinstance(model, Share) else None
    mix_attention = None if isinstance(attention, Kllm | KllmRtn) else attention
    return Kllm(
        model, config, backend, progress, calibrate.obtain(model, config, backend, calibration, progress, mix_attention)
    )
