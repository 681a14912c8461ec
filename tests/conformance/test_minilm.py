"""all-MiniLM-L6-v2 compared with Hugging Face transformers in float32.

Hidden states are compared per token by relative L2. The numbers of the OliVe schemes are recorded, not limited.
"""

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models.encoder import runtime
from refemu.models.taps import Watch

pytestmark = pytest.mark.model

UNIT_ROUNDOFF = 2.0**-11  #: of fp16
EMBEDDING_ROUNDINGS = 7  #: three embeddings, their sum; gain, bias and result of the norm
BLOCK_ROUNDINGS = 28  #: 6 weights, biases, results; attention, GELU; 2 sums; 2 norms of gain, bias, result
WORDS = 256  #: tokens of a text at most, as the model's own program cuts


def bound(blocks: int) -> float:
    """Largest relative L2 error of a token after `blocks` blocks in scheme `fp16`.

    Rounding a vector to fp16 moves it by at most `UNIT_ROUNDOFF` relative to its length. Successive roundings
    are independent, so their squares add; a post-norm block passes an error on with a gain of about one, because the
    norm after each residual sum sets the length again. float32 programs differ by 4e-6, which needs no allowance.
    """
    return UNIT_ROUNDOFF * float(np.sqrt(EMBEDDING_ROUNDINGS + BLOCK_ROUNDINGS * blocks))


@cache
def prepared(scheme: str) -> Any:
    return models.prepare("all-minilm-l6-v2", scheme)


def errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Relative L2 error of every token."""
    return np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)


def last_errors(reference: Any, scheme: str) -> np.ndarray:
    data = reference("models/minilm_oracle")
    return errors(models.encode("all-minilm-l6-v2", data["ids64"], prepared(scheme)), data["hidden64"][-1])


def sentences(reference: Any) -> list[tuple[str, list[int], np.ndarray]]:
    """Text, token ids and embedding of the four short sentences."""
    data = reference("models/minilm_oracle")
    rows = zip(data["sents"].tolist(), data["sent_ids"].tolist(), data["sent_emb"], strict=True)
    return [(text, [i for i in ids if i >= 0], vector) for text, ids, vector in rows]


def test_word_pieces_are_the_reference_ones(minilm: Any, reference: Any) -> None:
    for text, ids, _ in sentences(reference):
        assert ids == minilm.tokenizer.sentence(text)


def test_hidden_states_of_every_layer_match_float32(minilm: Any, reference: Any) -> None:
    """Measured: 6.6e-4 after the embeddings, 3.1e-3 after the last block; the bounds are 1.3e-3 and 6.5e-3."""
    data = reference("models/minilm_oracle")
    found = runtime.states(prepared("fp16"), [data["ids64"].astype(np.int64)], Watch())

    for blocks, (x, expected) in enumerate(zip(found, data["hidden64"], strict=True)):
        assert errors(x, expected).max() < bound(blocks)


def test_embeddings_are_those_of_float32(minilm: Any, reference: Any) -> None:
    """A mean over tokens is no farther off than its tokens; both vectors have length 1."""
    for _, ids, expected in sentences(reference):
        vector = models.embedding("all-minilm-l6-v2", ids, prepared("fp16"))

        assert abs(np.linalg.norm(vector) - 1) < 1e-6
        assert np.linalg.norm(vector - expected) < bound(6)


@pytest.mark.slow
def test_eight_bits_beat_four_and_outliers_help(minilm: Any, reference: Any) -> None:
    """[olive §5]: mean relative L2 errors of the last hidden states; int4 and int8 saturate."""
    names = ("fp16", "olive-8", "olive-4", "olive-4:outliers=false,types=int")
    fp16, eight, four, int4 = (last_errors(reference, name).mean() for name in names)

    assert fp16 < eight / 20
    assert eight < four / 3
    assert four < int4


@pytest.mark.parametrize(
    ("scheme", "recorded"),
    [
        ("fp16", 0.0016),
        pytest.param("olive-8", 0.1001, marks=pytest.mark.slow),
        ("olive-8:act_bits=none", 0.0288),
        ("olive-4", 0.5350),
        ("olive-4:act_bits=none", 0.3114),
    ],
)
def test_errors_of_the_schemes_are_recorded(minilm: Any, reference: Any, scheme: str, recorded: float) -> None:
    """Mean relative L2 error of the last hidden states over the 64 tokens."""
    assert recorded == round(float(last_errors(reference, scheme).mean()), 4)


def news() -> list[str]:
    """The 50 news texts: `lee.cor` of package gensim, or the file that REFEMU_NEWS names. Absent: skipped."""
    spec = importlib.util.find_spec("gensim")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    given = [Path(os.environ["REFEMU_NEWS"])] if "REFEMU_NEWS" in os.environ else []
    for file in (*given, *(folder / "test" / "test_data" / "lee.cor" for folder in folders)):
        if file.is_file():
            return [line for line in file.read_text("latin-1").split("\n") if line.strip()]
    pytest.skip("the 50 news texts are not here: set REFEMU_NEWS to lee.cor of gensim 4.4.0")


@pytest.mark.parametrize(
    ("scheme", "pearson"),
    [("fp16", 0.6563), ("olive-8", 0.6638), ("olive-4", 0.6482), ("olive-4:outliers=false,types=int", 0.5312)],
)
def test_similarity_of_news_texts_correlates_with_human_ratings(
    minilm: Any, reference: Any, scheme: str, pearson: float
) -> None:
    """Over 1,225 pairs of texts; float32 has 0.6564. Recorded, because few texts say little about accuracy."""
    human = reference("models/minilm_oracle")["lee50_human"]
    ids = [minilm.tokenizer.sentence(text, WORDS) for text in news()]
    vectors = np.array([models.embedding("all-minilm-l6-v2", text, prepared(scheme)) for text in ids])
    pairs = np.triu_indices(len(vectors), 1)

    assert pearson == round(float(np.corrcoef((vectors @ vectors.T)[pairs], human[pairs])[0, 1]), 4)
