"""Preparation under a KLLM scheme: the quantizer decides the class, and a calibration that is at hand is used."""

from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY
from refemu.models.schemes.kllm.config import A4, KllmConfig
from refemu.models.schemes.kllm.layers import Kllm
from refemu.models.schemes.kllm.prepare import prepare
from refemu.models.schemes.kllm.rtn import KllmRtn
from refemu.models.schemes.scheme import silent
from tests.models.schemes.kllm import plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8, 6, 10, 3, 5]


def test_the_quantizer_decides_the_class() -> None:
    trained = prepare(A4, plain.small(), NUMPY, CALIBRATION, silent)
    rounded = prepare(KllmConfig(quantizer="rtn"), plain.small(), NUMPY, None, silent)

    assert (type(trained), type(rounded)) == (Kllm, KllmRtn)
    assert (trained.config, trained.backend) == (A4, NUMPY)


def test_a_calibration_at_hand_is_not_trained_again() -> None:
    steps: list[str] = []
    trained = prepare(A4, plain.small(), NUMPY, CALIBRATION, silent).calibration
    again = prepare(A4, plain.small(), NUMPY, trained, lambda what, done, total: steps.append(what))

    assert again.calibration is trained
    assert "calibration" not in steps


def test_encoders_and_missing_calibrations_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"calibration .*none\.npz: no such file"):
        models.prepare("tiny", KllmConfig(calibration=str(tmp_path / "none.npz")))
    with pytest.raises(Refused, match="calibration needs token ids, got none"):
        models.prepare("tiny", "kllm-a4", calibration=[])
    with pytest.raises(Refused, match="computes decoders"):
        models.prepare("tiny-encoder", "kllm-a4")
