"""SmolLM2-135M under the KLLM schemes: the order of [kllm Tables II, IV, Fig. 11] on a short text.

Absolute perplexities are another model's on another text: the order is compared, the numbers are in docs/claims.md.
"""

from typing import Any

import pytest

from refemu.models import text
from refemu.models.schemes import kllm_study

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(smollm2: Any) -> dict[str, float]:
    """Perplexity of 127 tokens by scheme, calibrated on windows of 256."""
    names = [*kllm_study.rungs(), "kllm-a4:weight_sensitivity=none"]
    ids = smollm2.tokenizer.encode(text.default())[:128]
    return {rung.scheme: rung.perplexity for rung in kllm_study.study(smollm2, ids, 128, names, 256)}


def test_order_of_table_2(found: dict[str, float]) -> None:
    """fp16 is best, integers to nearest are lost, ranks beat static limits, four bits beat three."""
    assert found["fp16"] < found["kllm-a4"] < found["kllm-a4-s"] < found["kllm-a4:quantizer=rtn"]
    assert found["kllm-a4"] < found["kllm-a3"] < found["kllm-a3-s"]


def test_perplexity_falls_with_the_share_of_outliers(found: dict[str, float]) -> None:
    """[kllm Table IV], from 0.5 to 10 percent."""
    ladder = [found["kllm-a4" + share] for share in (":outlier_percent=0.5", "", ":outlier_percent=2",
                                                     ":outlier_percent=5", ":outlier_percent=10")]

    assert ladder == sorted(ladder, reverse=True)


def test_weighted_training_helps(found: dict[str, float]) -> None:
    """[kllm Fig. 11], with the moments of the inputs in place of Fisher information (D-kllm-29)."""
    assert found["kllm-a4"] < found["kllm-a4:weight_sensitivity=none"]
