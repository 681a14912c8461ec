"""Configurations of the KLLM schemes: names, texts, rejected ones."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.kllm.config import KllmConfig


def test_four_schemes_are_registered() -> None:
    """D-kllm-30: the static ones differ in the thresholds only."""
    found: dict[str, Any] = schemes.SCHEMES

    assert found["kllm-a4"] == KllmConfig()
    assert found["kllm-a3"] == KllmConfig(act_bits=3)
    assert found["kllm-a4-s"] == KllmConfig(thresholds="static")
    assert found["kllm-a3-s"] == KllmConfig(act_bits=3, thresholds="static")


@pytest.mark.parametrize(("given", "spelled"), [(1, "1"), ("1.0", "1"), (0.5, "0.5"), ("10", "10"), (0, "0")])
def test_shares_of_outliers_have_one_spelling(given: Any, spelled: str) -> None:
    """D-kllm-24: a decimal number, used exactly."""
    assert KllmConfig(outlier_percent=given).outlier_percent == spelled
    assert schemes.parse(f"kllm-a4:outlier_percent={given}") == KllmConfig(outlier_percent=spelled)


@pytest.mark.parametrize(
    "text",
    [
        "kllm-a4:outlier_percent=0.5",
        "kllm-a3:score_bits=8",
        "kllm-a4-s:gamma=activations",
        "kllm-a4:quantizer=rtn",
        "kllm-a4:v_scale=static,kv_outliers=true",
    ],
)
def test_texts_are_read_back(text: str) -> None:
    config = schemes.parse(text)

    assert schemes.parse(schemes.text(config)) == config


def test_scores_have_the_bits_of_activations_unless_said() -> None:
    """D-kllm-15."""
    assert [KllmConfig().integer_bits, KllmConfig(act_bits=3).integer_bits, KllmConfig(score_bits=8).integer_bits] == [
        4,
        3,
        8,
    ]


def test_what_is_static() -> None:
    assert [name for name in ("q", "k", "v", "gate") if KllmConfig(v_scale="static").static(name)] == ["v"]
    assert [name for name in ("q", "v", "gate") if KllmConfig(function_table="offline").static(name)] == ["gate"]
    assert KllmConfig(thresholds="static").static("q")
    assert [KllmConfig(kv_outliers=False).percent(name) for name in ("q", "k", "v")] == ["1", None, None]


BAD = {
    "act_bits=5": r"act_bits must be an integer in \[1, 4\], got 5",
    "act_bits=none": "act_bits must be an integer",
    "weight_bits=0": r"weight_bits must be an integer in \[1, 4\], got 0",
    "score_bits=9": r"score_bits must be an integer in \[1, 8\], got 9",
    "outlier_percent=100": r"outlier_percent must be a decimal number in \[0, 100\), got 100",
    "outlier_percent=-1": "outlier_percent must be a decimal number",
    "outlier_percent=many": "outlier_percent must be a decimal number in .* got 'many'",
    "outlier_percent=true": "outlier_percent must be a decimal number in .* got True",
    "zero_point=true": "zero_point must be",
    "thresholds=online": "thresholds must be",
    "score_scale=max": "score_scale=max needs one scale of V for all tokens; use v_scale=static",
    "v_scale=static,kv_outliers=false": "v_scale=static needs kv_outliers=true, got false",
    "quantizer=rtn,act_bits=1": "act_bits must be at least 2 with quantizer=rtn, got 1",
    "calibration_tokens=0": "calibration_tokens must be an integer",
    "calibration_tokens=1048577": "calibration_tokens must be an integer",
    "sensitivity=3": "sensitivity must be the path of a file, got 3",
    "preset=repo": "preset must be",
}


@pytest.mark.parametrize(("change", "message"), BAD.items(), ids=BAD)
def test_invalid_parameters_are_rejected(change: str, message: str) -> None:
    """D-kllm-10 for zero points."""
    with pytest.raises(Refused, match=message):
        schemes.parse(f"kllm-a4:{change}")
