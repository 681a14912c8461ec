"""SmolLM2-135M under the LeanKV schemes: the directions of the paper's figures, and refemu's own numbers, pinned.

Paper: [leankv §3, Fig. 1-3; §7.2, Fig. 7, Fig. 8]. Its models are larger; what is compared is which side wins.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import schemes, text
from refemu.models.schemes import leankv_study
from refemu.models.schemes.leankv_study import Row
from refemu.units.significance import critical_tokens

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
    return session._caches.current.prompt


def rows(smollm2: Any, names: list[str], tokens: int, win: int, prefill: int) -> list[Row]:
    return list(leankv_study.study(smollm2, ids(smollm2)[:tokens], win, prefill, names))


def test_critical_tokens_differ_by_layer_and_head(prompt: Any) -> None:
    """[leankv Fig. 2, Fig. 3]: percent of the tokens that get 95 % of a head's attention: 6 to 89, in layers 44 to 81.

    The figures sum over all queries of the prompt.
    """
    count = np.array([critical_tokens(np.ascontiguousarray(one).view(np.float32), 0.95) for one in prompt.sums])
    percent = 100 * count / CONTEXT
    layers = percent.mean(axis=1)

    assert [round(float(percent.min())), round(float(percent.max()))] == [6, 89]
    assert [round(float(layers.min())), round(float(layers.max()))] == [44, 81]


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
def test_figures_of_the_study(smollm2: Any) -> None:
    """The default text and windows of `refemu study leankv`: its figures to the last digit shown [leankv Fig. 7, 8]."""
    names = ["fp16", "leankv-k8v4", "leankv-k4v8", "leankv",
             "leankv-k16v16:score_rule=cumulative,t_low=0.05", leankv_study.MATCHED]
    found = rows(smollm2, names, 1536, 768, 512)

    assert [f"{100 * row.payload:.2f} {row.perplexity:.3f}" for row in found] == [
        "100.00 31.749", "37.50 32.151", "37.50 35.579", "27.88 32.203", "42.67 32.475", "42.89 32.635"]


def test_thresholds_of_the_ready_scheme_prune() -> None:
    """D-leankv-51: `leankv` prunes, `leankv:t_low=0.0` does not."""
    ready: Any = schemes.parse("leankv")

    assert 0 < ready.t_low < ready.t_high
