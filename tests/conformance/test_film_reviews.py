"""The float32 encoder and the probe of the accuracy study compared with transformers and its ridge probe."""

from typing import Any

import numpy as np
import pytest

from refemu.models.encoder import runtime
from refemu.models.encoder.plain_float import FloatEncoder
from refemu.models.fetch import store
from refemu.studies import accuracy
from refemu.studies.accuracy import Rated
from tests.conformance.conftest import absent

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def reviews() -> list[Rated]:
    """The sentences as the reference read them: UTF-8 taken for latin-1, in 133 of 10,605."""
    if store.path("film-reviews") is None:
        absent("the text of film-reviews is not here; run: refemu models fetch film-reviews")
    found = accuracy.read(store.require("film-reviews"))
    return [Rated(one.rating, one.text.encode("utf-8").decode("latin-1")) for one in found]


def test_hidden_states_are_those_of_float32(minilm: Any, reference: Any) -> None:
    """Two float32 programs: at most 5e-6 apart by relative L2 per token."""
    data = reference("models/minilm_oracle")
    found, expected = runtime.encode(FloatEncoder(minilm), [data["ids64"].astype(np.int64)]), data["hidden64"][-1]

    assert (np.linalg.norm(found - expected, axis=-1) < 5e-6 * np.linalg.norm(expected, axis=-1)).all()


def test_labels_are_the_signs_of_the_ratings(reference: Any, reviews: list[Rated]) -> None:
    data = reference("models/minilm_movie_probe")
    chosen = [reviews[row] for row in data["rows"].tolist()]

    assert [one.rating > 0 for one in chosen] == data["label"].astype(bool).tolist()
    assert min(abs(one.rating) for one in chosen) >= accuracy.CLEAR


@pytest.mark.slow
def test_the_probe_is_the_reference_one(minilm: Any, reference: Any, reviews: list[Rated]) -> None:
    """The same 2,000 sentences give the same 385 weights, and 78.9 % of the same 1,000 test sentences."""
    data = reference("models/minilm_movie_probe")
    chosen, good = [reviews[row] for row in data["rows"].tolist()], data["label"].astype(bool)
    vectors = accuracy.embeddings(FloatEncoder(minilm), minilm, chosen)
    weights = accuracy.fit(vectors[:2000], good[:2000])

    assert np.linalg.norm(weights - data["ridge_w"]) < 1e-5 * np.linalg.norm(weights)
    assert np.count_nonzero(accuracy.predict(weights, vectors[2000:]) == good[2000:]) == 789
