"""The sha256 of logits, little-endian float32: a bit that moves moves a line here.

A line changes only with a decision, and the release that changes it says so first ("Changed bits"). Which machine, CPU
level or number of threads computes them does not matter; `tests/test_environment.py` runs that matrix.
"""

import hashlib
from typing import Any

import pytest

from refemu import models

TINY_IDS = list(b"She was now nine-and-twenty")
CALIBRATION = list(b"It is a truth universally acknowledged, that a single man")
TINY = {
    "fp16": "a31c39e1b7f437c701414f73fde6ad482091238abb55882946faf5794f17526d",
    "fp16:acc=fp16": "423219001ae6cc2ab1e09a48235f8af8bd963ed61e5f0abd82b64759effd2364",
    "fp16:acc=fp16_fma": "eb03b92b45aac56ca978f33a78baa4a5f5b98f40440c85677f9f74cc7880a12e",
    "fp16:residual=fp32": "c74bcd1b3f20d03109eedf6b7bd3fc8eeba0544f73bea84c9a83069c330d5b99",
    "olive-4": "b0d1ccad865622513e9b5bb764d4eec2a65fe5b6a8d6c706530331e1157380b2",
    "olive-8": "cf4e5791890e569ad0ca255a53fd0df78a7a5567389bb023102d782a7f123949",
    "olive-4:act_bits=none": "c50e38645e4fe7885f5edfba9d59939723959a80e18ec9bcece90a1e5cc84601",
    "olive-4:preset=repo": "32cbf91f7350e4363cfeacf62461e550fc8ec17bca0b791eb05e929c11ccf954",
    "kllm-a4": "c4b043c255dacfad0819900025ee8a820e26d15d1b72343cd65cbe46981b3330",
    "kllm-a3": "c70f5f4937cab3dd3031b5ac8c9de4ba9f13a87830133f19bd0ed1c41fdf2027",
    "kllm-a4-s": "b251eb1fa546d964ef48b597d60b0b75bbec1c682e2a8ca120dc63134ac7abd8",
    "kllm-a4:preset=exact": "7dc7bcb0a2a912794ddc22d301d74d99868c70907a04119cf76efd79524178df",
}

CAPITAL = [504, 3575, 282, 4649, 314]  #: "The capital of France is"
GRAVITY = [1, 4093, 198, 1780, 314, 9354, 47, 2, 198, 1, 520, 9531, 198]  #: "What is gravity?" in chat markup
SMOLLM2 = {
    "fp16": (
        "4e79db31ec79ada1b58171fd71822a22d1490ebe905e41a02f4f89946e8d943d",
        "6ea512fe09cb349f79802e17d2a299854216fdf9daf723e48ba2988dfc57d406",
    ),
    "olive-4": (
        "b4d23802df19a8c9a05f0e9d00eb2193266228a1f803da8d086e5a7ac439660a",
        "adac7f05c5e4ad0c99b4d3304142d15da9c0cd6be4e679f2dddf8bf1b9a92424",
    ),
}


def digest(logits: Any) -> str:
    """sha256 of the little-endian bytes."""
    return hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest()


@pytest.mark.parametrize("scheme", TINY)
def test_logits_of_tiny(scheme: str) -> None:
    """D-arith-15 for scheme `fp16`; D-olive-28, D-olive-42 and the formats for the OliVe schemes; D-kllm-28 and every
    decision on a block for the KLLM schemes.
    """
    run = models.run("tiny", TINY_IDS, scheme, calibration=CALIBRATION)

    assert digest(run.logits) == TINY[scheme]


@pytest.mark.model
@pytest.mark.parametrize("scheme", ["fp16", pytest.param("olive-4", marks=pytest.mark.slow)])
def test_logits_of_smollm2(smollm2: Any, scheme: str) -> None:
    """`olive-4` searches every weight first, and calibrates on the shipped text: half a minute."""
    prepared = models.prepare(smollm2, scheme)
    found = tuple(digest(models.run(smollm2, ids, prepared).logits) for ids in (CAPITAL, GRAVITY))

    assert found == SMOLLM2[scheme]
