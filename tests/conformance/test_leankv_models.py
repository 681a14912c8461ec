"""SmolLM2-135M under the LeanKV schemes: the directions of the paper's figures, and refemu's own numbers, pinned.

Paper: [leankv §3, Fig. 1-3; §7.2, Fig. 7, Fig. 8]. Its models are larger; what is compared is which side wins.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import schemes, text
from refemu.models.scores.uncertainty import Change
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import memory, sparsity
from refemu.studies.leankv.experiments import over
from refemu.studies.leankv.memory import Row
from refemu.units.leankv.significance import critical_tokens
from tests.studies.measured import leankv_rows

pytestmark = pytest.mark.model
CONTEXT = 512


@cache
def ids(smollm2: Any) -> list[int]:
    found: list[int] = smollm2.tokenizer.encode(text.default())
    return found


@pytest.fixture(scope="module")
def prompt(smollm2: Any) -> Any:
    """What the layers leave of a prompt of CONTEXT tokens."""
    session: Any = models.session(models.prepare(smollm2, "leankv"))
    session.append(ids(smollm2)[:CONTEXT], last=True)
    return session.caches.current.prompt


def rows(smollm2: Any, names: Sequence[str], tokens: int, win: int, prefill: int) -> list[Row]:
    return leankv_rows(Setting(smollm2, tuple(ids(smollm2)[:tokens]), win, prefill), names)


@pytest.mark.slow
def test_critical_tokens_differ_by_layer_and_head(prompt: Any) -> None:
    """[leankv Fig. 2, Fig. 3]: percent of the tokens that get 95 % of a head's attention: 6 to 89, in layers 44 to 81.

    The figures sum over all queries of the prompt.
    """
    count = np.array([critical_tokens(np.ascontiguousarray(one).view(np.float32), 0.95) for one in prompt.sums])
    percent = 100 * count / CONTEXT
    layers = percent.mean(axis=1)

    assert [round(float(percent.min())), round(float(percent.max()))] == [6, 89]
    assert [round(float(layers.min())), round(float(layers.max()))] == [44, 81]


@pytest.mark.slow
def test_scores_span_more_decades_than_norms_of_values(prompt: Any) -> None:
    """[leankv Fig. 1]: between the 1st and the 99th percentile, median over the KV heads."""
    spans = []
    for share, value in zip(prompt.shares, prompt.values, strict=True):
        scores = np.ascontiguousarray(share).view(np.float32).astype(np.float64)[:, :-1]
        norms = np.sqrt((value.astype(np.float64) ** 2).sum(axis=-1)).T
        for head in range(len(scores)):
            spans.append([np.ptp(np.log10(np.percentile(x[head][x[head] > 0], (1, 99)))) for x in (scores, norms)])
    score, norm = np.median(spans, axis=0)

    assert score > 1.5 > 1 > norm


#: percent of the tokens that a query sees, layer by layer: mean of four prompts, the least and the most of them
SPARSITY = """
67.65 66.60 68.64, 26.84 25.76 27.87, 28.98 27.49 30.07, 19.61 19.29 19.95, 14.96 14.74 15.08, 18.38 17.66 19.06,
24.13 23.18 24.65, 23.66 22.02 24.61, 19.06 17.94 20.89, 12.54 11.36 14.41, 10.69 10.24 11.24, 16.44 15.40 17.96,
14.36 13.35 15.85, 6.38 5.85 7.01, 21.44 18.91 22.96, 22.56 21.27 25.05, 11.29 10.65 12.16, 15.96 13.17 19.77,
7.47 6.56 9.56, 19.60 18.75 21.08, 20.08 19.01 21.42, 21.99 20.98 24.60, 13.68 12.62 16.47, 12.87 10.43 14.59,
20.00 19.11 21.91, 7.66 6.68 9.59, 10.02 8.90 12.45, 8.09 6.89 10.29, 18.54 17.12 21.12, 25.20 23.08 26.89"""


@pytest.mark.slow
def test_tokens_that_a_query_needs(smollm2: Any) -> None:
    """[leankv §3.2, Fig. 2, Fig. 3]: 95 % of the attention of each of the last 64 queries of four prompts of 512."""
    found = sparsity.sparsity(smollm2, ids(smollm2)[:2048], 512, 512)
    text_ = [" ".join(f"{100 * share:.2f}" for share in (row.mean, row.least, row.most)) for row in found]

    assert text_ == SPARSITY.replace("\n", " ").strip().split(", ")
    assert max(row.mean for row in found[1:]) < 0.3 < 0.6 < found[0].least


@pytest.mark.slow
def test_keys_matter_more_than_values(smollm2: Any) -> None:
    """[leankv Fig. 7]: K8V4 near fp16, K4V8 far worse though it takes as much; K4V2 far above K2V4."""
    names = ["fp16", "leankv-k8v4", "leankv-k4v8", "leankv-k4v2", "leankv-k2v4:k_group=2"]
    fp16, k8v4, k4v8, k4v2, k2v4 = rows(smollm2, names, 320, 160, 128)

    assert k8v4.payload == k4v8.payload == 0.375
    assert k4v2.payload == k2v4.payload == 0.1875
    assert k8v4.perplexity < 1.05 * fp16.perplexity
    assert k8v4.nll < k4v8.nll < k2v4.nll
    assert k4v2.nll < k2v4.nll


@pytest.mark.slow
def test_keys_matter_in_three_of_four_windows(smollm2: Any) -> None:
    """[leankv Fig. 7]: perplexity of four windows, 64 tokens scored in each; the second scores both nearly the same."""
    k8v4, k4v8 = rows(smollm2, ["leankv-k8v4", "leankv-k4v8"], 1280, 320, 256)

    assert [f"{row.perplexity:.3f}" for row in (k8v4, k4v8)] == ["35.976", "41.738"]
    assert [" ".join(f"{one:.3f}" for one in row.windows) for row in (k8v4, k4v8)] == [
        "29.597 45.326 39.748 31.414",
        "29.684 44.814 55.802 40.885",
    ]
    assert spread_of(over(k4v8, k8v4)) == "+16.0 10.4"


def spread_of(one: Change) -> str:
    """A change in percent and its standard error over the windows."""
    assert one.error is not None
    return f"{one.percent:+.1f} {one.error:.1f}"


#: percent of fp16 keys and values that the codes take, and perplexity, in the order of the study
FIGURES = {
    "fp16": "100.00 31.749",
    "leankv-k16v16": "100.00 31.748",
    "leankv-k8v8": "50.00 31.754",
    "leankv-k8v4": "37.50 32.151",
    "leankv-k4v8": "37.50 35.579",
    "leankv-k4v4": "25.00 34.634",
    "leankv-k4v2": "18.75 42.232",
    "leankv-k2v4:k_group=2": "18.75 295.341",
    "leankv:t_low=0.0": "29.49 32.212",
    "leankv": "27.88 32.203",
    "leankv:t_low=0.01,t_high=0.1,score_rule=cumulative": "23.82 32.428",
    "leankv:t_low=0.05,t_high=0.2,score_rule=cumulative": "15.99 32.772",
    "leankv-k8v8:t_low=0.02,score_rule=cumulative": "26.21 32.451",
    "leankv-k16v16:t_low=0.02,score_rule=cumulative": "52.43 32.459",
    "leankv-k16v16:policy=static,keep_percent=52": "51.89 32.461",
    "leankv-k16v16:t_low=0.05,score_rule=cumulative": "42.67 32.475",
    "leankv-k16v16:policy=static,keep_percent=43": "42.89 32.635",
    "leankv-k16v16:t_low=0.1,score_rule=cumulative": "32.39 32.846",
    "leankv-k16v16:policy=static,keep_percent=32": "31.94 33.140",
}


@pytest.mark.slow
def test_figures_of_the_study(smollm2: Any) -> None:
    """`refemu study leankv`, to the last digit shown [leankv Fig. 7, Fig. 8]."""
    found = rows(smollm2, ["fp16", *memory.PAIRS, *memory.MIXED, *memory.BUDGETS], 1536, 768, 512)

    assert {row.scheme: f"{100 * row.payload:.2f} {row.perplexity:.3f}" for row in found} == FIGURES


#: four prompts of 512 tokens, 128 steps scored after each: percent of fp16 that the codes take, its standard error
#: over the prompts, the least and the most of them, percent with metadata; change of the perplexity, and its error
FOUR_PROMPTS = {
    "leankv-k8v4": "37.50 0.00 37.50 37.50 43.75, +0.7 0.9",
    "leankv-k4v8": "37.50 0.00 37.50 37.50 43.75, +12.9 2.9",
    "leankv:t_low=0.0": "31.57 0.06 31.46 31.72 37.82, +0.8 1.2",
    "leankv": "30.23 0.12 30.00 30.55 36.03, +0.8 1.6",
    "leankv:t_low=0.01,t_high=0.1,score_rule=cumulative": "23.85 0.14 23.52 24.18 29.10, +2.0 1.5",
    "leankv:t_low=0.05,t_high=0.2,score_rule=cumulative": "15.97 0.19 15.61 16.50 19.78, +3.1 2.0",
}
T95 = 3.182  #: a mean of four is beyond chance, at 95 %, from as many standard errors on


@pytest.mark.slow
def test_memory_and_loss_of_four_prompts(smollm2: Any) -> None:
    """[leankv §7.2, Table 1, Fig. 7]: the share hardly differs by prompt; K4V8 loses beyond chance, to K8V4 too, and
    neither K8V4 nor K8V4 with K4V2, pruned or not, does.
    """
    fp16, *found = rows(smollm2, ["fp16", *FOUR_PROMPTS], 2560, 640, 512)
    lines, beyond = {}, []
    for row in found:
        change = over(row, fp16)
        assert change.error is not None and row.payload_error is not None
        shares = row.payload, row.payload_error, min(row.payloads), max(row.payloads), row.tokens
        lines[row.scheme] = f"{' '.join(f'{100 * one:.2f}' for one in shares)}, {spread_of(change)}"
        beyond += [row.scheme] * (abs(change.percent) > T95 * change.error)
    k8v4, k4v8 = found[:2]

    assert lines == FOUR_PROMPTS
    assert beyond == ["leankv-k4v8"]
    assert spread_of(over(k4v8, k8v4)) == "+12.1 2.5"


@pytest.mark.slow
def test_budgets_of_heads_window_by_window(smollm2: Any) -> None:
    """[leankv Fig. 8]: perplexity of four windows, a budget for every head, then the same for all; 64 tokens scored.

    With 42 % of the tokens heads win in three windows and in all together; with 53 % in two, and not in all.
    """
    found = rows(smollm2, memory.BUDGETS[2:], 1280, 320, 256)

    assert [f"{100 * row.kept:.2f} {row.perplexity:.3f}" for row in found] == [
        "53.35 37.451",
        "52.98 37.433",
        "41.98 38.161",
        "41.69 38.610",
    ]
    assert [" ".join(f"{one:.3f}" for one in row.windows) for row in found] == [
        "31.828 49.326 40.138 31.217",
        "31.881 49.180 39.557 31.659",
        "32.064 52.081 39.811 31.899",
        "31.881 54.311 40.164 31.957",
    ]
    equal = [over(all_heads, heads) for heads, all_heads in (found[:2], found[2:])]
    assert [spread_of(one) for one in equal] == ["-0.0 0.6", "+1.2 1.1"]


def test_thresholds_of_the_ready_scheme_prune() -> None:
    """D-leankv-51: `leankv` prunes, `leankv:t_low=0.0` does not."""
    ready: Any = schemes.parse("leankv")

    assert 0 < ready.t_low < ready.t_high
