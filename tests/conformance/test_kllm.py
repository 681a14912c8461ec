"""SmolLM2-135M under the KLLM schemes: the order of [kllm Tables II, IV, Fig. 11] in every window of a short text.

Absolute perplexities are of another model and text: tests compare the order; docs/claims-measurements.md has numbers.
"""

import math
from typing import Any

import pytest

from refemu.models import schemes, text
from refemu.studies.evaluation import Setting, score
from refemu.studies.kllm import experiments
from tests.studies.measured import measured

pytestmark = [pytest.mark.model, pytest.mark.slow]

WINDOW, WINDOWS = 64, 4  #: tokens of each, with an empty cache; their number
UNWEIGHTED = "kllm-a4:weight_sensitivity=none"


@pytest.fixture(scope="module")
def found(smollm2: Any) -> dict[str, tuple[float, ...]]:
    """Mean nll of every window by scheme, calibrated on windows of 64."""
    names = [*experiments.LADDER, *experiments.names("shares"), UNWEIGHTED]
    ids = smollm2.tokenizer.encode(text.default())[: WINDOW * WINDOWS]
    setting = Setting(smollm2, tuple(ids), WINDOW)
    results = measured(experiments.steps(setting, (), names, WINDOW), setting)
    texts = {name: schemes.text(experiments.with_tokens(name, WINDOW)) for name in names}
    return {name: score(setting, results, of_scheme).losses for name, of_scheme in texts.items()}


def ratios(found: dict[str, tuple[float, ...]], worse: str, better: str) -> tuple[str, str]:
    """Least and largest ratio of the perplexities of a window, to three digits."""
    quotients = [math.exp(a - b) for a, b in zip(found[worse], found[better], strict=True)]
    assert len(quotients) == WINDOWS
    return f"{min(quotients):.3g}", f"{max(quotients):.3g}"


@pytest.mark.parametrize(
    ("worse", "better", "spread"),
    [
        ("kllm-a4", "fp16", ("1.73", "2.08")),
        ("kllm-a4-s", "kllm-a4", ("1.88", "2.58")),
        ("kllm-a4:quantizer=rtn", "kllm-a4-s", ("54.5", "244")),
        ("kllm-a3", "kllm-a4", ("2.66", "5.41")),
        ("kllm-a3-s", "kllm-a3", ("5.34", "27.1")),
    ],
)
def test_order_of_table_2(
    found: dict[str, tuple[float, ...]], worse: str, better: str, spread: tuple[str, str]
) -> None:
    """fp16 is best, integers to nearest are lost, ranks beat static limits, four bits beat three: in every window."""
    assert ratios(found, worse, better) == spread and float(spread[0]) > 1


@pytest.mark.parametrize(
    ("fewer", "more", "falls", "spread"),
    [
        ("kllm-a4:outlier_percent=0.5", "kllm-a4", 4, ("1.12", "1.29")),
        ("kllm-a4", "kllm-a4:outlier_percent=2", 1, ("0.855", "1.12")),
        ("kllm-a4:outlier_percent=2", "kllm-a4:outlier_percent=5", 4, ("1.04", "1.35")),
        ("kllm-a4:outlier_percent=5", "kllm-a4:outlier_percent=10", 4, ("1.03", "1.22")),
        ("kllm-a4:outlier_percent=0.5", "kllm-a4:outlier_percent=10", 4, ("1.36", "1.71")),
    ],
)
def test_perplexity_falls_with_the_share_of_outliers(
    found: dict[str, tuple[float, ...]], fewer: str, more: str, falls: int, spread: tuple[str, str]
) -> None:
    """[kllm Table IV], from 0.5 to 10 percent: in every window but from 1 to 2 percent, where it falls in one of four.

    On 1,024 tokens, calibrated on longer windows, that step falls too: see the table of docs/claims-measurements.md.
    """
    assert [a > b for a, b in zip(found[fewer], found[more], strict=True)].count(True) == falls
    assert ratios(found, fewer, more) == spread


def test_weighted_training_helps(found: dict[str, tuple[float, ...]]) -> None:
    """[kllm Fig. 11], with the moments of the inputs in place of Fisher information (D-kllm-29)."""
    assert ratios(found, UNWEIGHTED, "kllm-a4") == ("1.39", "4.68")
