"""The accuracy study: which sentences, which probe, what its rows say; the order of the schemes on a real model."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Jit
from refemu.models.encoder.plain_float import FloatEncoder
from refemu.models.fetch import store
from refemu.studies import accuracy
from refemu.studies.accuracy import Rated
from refemu.studies.evaluation import Setting
from tests.studies.measured import measured

RATED = [
    Rated(rating, f"{word} {thing}.")
    for thing in ("film", "story", "end")
    for word, rating in (("Fine", 2.5), ("Dull", -1.0), ("Good", 0.5), ("Bad", -0.5), ("Middling", 0.25))
]


def write(folder: Path, content: str) -> Path:
    (folder / "rated.txt").write_bytes(content.encode())
    return folder / "rated.txt"


def test_a_file_of_rated_sentences(tmp_path: Path) -> None:
    path = write(tmp_path, "1\t2.5\tFine, café.\r\n\r\n2\t-1\tDull\tbut short. \n")

    assert accuracy.read(path) == [Rated(2.5, "Fine, café."), Rated(-1.0, "Dull\tbut short.")]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("1\tgood\tFine.", id="rating"),
        pytest.param("1\tnan\tFine.", id="nan"),
        pytest.param("1\t2.5", id="no sentence"),
        pytest.param("1\t2.5\t ", id="empty sentence"),
        pytest.param("\t2.5\tFine.", id="no number"),
        pytest.param("Fine.", id="no tabs"),
    ],
)
def test_invalid_line_is_rejected(tmp_path: Path, line: str) -> None:
    with pytest.raises(Refused, match=r"rated\.txt: line 2: must be number, rating and sentence separated by tabs"):
        accuracy.read(write(tmp_path, "1\t1\tGood.\n" + line))


def test_sentences_are_clear_and_apart() -> None:
    test, train = accuracy.split(RATED, 4)
    fewer, _ = accuracy.split(RATED, 3)

    assert (len(test), len(train)) == (4, 8)
    assert sorted(map(repr, test + train)) == sorted(repr(one) for one in RATED if abs(one.rating) >= 0.5)
    assert test[:3] == fewer


@pytest.mark.parametrize("sentences", [0, 5])
def test_more_sentences_than_available_are_rejected(sentences: int) -> None:
    with pytest.raises(Refused, match=rf"sentences must be in \[1, 4\] for 12 sentences .*, got {sentences}"):
        accuracy.split(RATED, sentences)


def test_the_probe_is_the_ridge_solution() -> None:
    """The gradient of |x w - y|^2 + |w|^2 is 0 there, the constant included."""
    x = np.linspace(-1, 1, 40).reshape(10, 4) ** 3
    x[::3] *= -1
    good = np.arange(10) % 4 < 2
    w = accuracy.fit(x.astype(np.float32), good)
    rows = np.concatenate([x.astype(np.float32), np.ones((10, 1))], axis=1)

    assert w.shape == (5,)
    assert np.abs(rows.T @ (rows @ w - np.where(good, 1, -1)) + accuracy.RIDGE * w).max() < 1e-12
    assert accuracy.predict(w, x).tolist() == (rows @ w > 0).tolist()


def test_embeddings_do_not_depend_on_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.load("tiny-encoder")
    prepared = models.prepare(model)
    one = [models.embedding(model, model.tokenizer.sentence(rated.text), prepared) for rated in RATED]
    monkeypatch.setattr(accuracy, "BATCH", 4)
    seen: list[tuple[str, int, int]] = []

    assert np.array_equal(accuracy.embeddings(prepared, model, RATED, "fp16", lambda *now: seen.append(now)), one)
    assert seen == [("fp16", 4, 15), ("fp16", 8, 15), ("fp16", 12, 15), ("fp16", 15, 15)]


def test_every_scheme_uses_the_probe_of_fp32() -> None:
    """Counted again for one scheme, sentence by sentence."""
    model = models.load("tiny-encoder")
    setting = Setting(model, (), 0)
    results = measured(accuracy.steps(model, RATED, 4), setting)
    rows = [accuracy.Row(**result) for result in results.values()]
    test, train = accuracy.split(RATED, 4)
    plain, prepared = FloatEncoder(model), models.prepare(model, "olive-4")
    weights = accuracy.fit(accuracy.embeddings(plain, model, train), np.array([one.rating > 0 for one in train]))
    exact, found = (accuracy.embeddings(parts, model, test).astype(float) for parts in (plain, prepared))
    said, fp32 = (
        [sum(map(float.__mul__, vector, weights.tolist()), weights[-1]) > 0 for vector in part.tolist()]
        for part in (found, exact)
    )

    assert [row.name for row in rows] == ["fp32", *accuracy.SCHEMES]
    assert (rows[0].agreement, rows[0].error) == (1, 0)
    row = next(row for row in rows if row.name == "olive-4")
    assert row.accuracy == sum(a == (one.rating > 0) for a, one in zip(said, test, strict=True)) / 4
    assert row.agreement == sum(a == b for a, b in zip(said, fp32, strict=True)) / 4
    errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, exact, strict=True)]
    assert abs(row.error - sum(errors) / 4) < 1e-12


def test_decoder_is_rejected() -> None:
    with pytest.raises(Refused, match="accuracy: tiny is a decoder; name an encoder"):
        accuracy.steps(models.load("tiny"), RATED, 4)


def test_accuracy_repr() -> None:
    assert eval(repr(RATED[0]), {"Rated": Rated}) == RATED[0]


@pytest.fixture(scope="module")
def reviews() -> list[Rated]:
    """The film reviews; absent ones skip the test, and fail it where CI is set, as weights do."""
    if store.path("film-reviews") is None:
        absent = pytest.fail if os.environ.get("CI", "").lower() not in ("", "0", "false") else pytest.skip
        absent("the text of film-reviews is not here; run: refemu models fetch film-reviews")
    return accuracy.read(store.require("film-reviews"))


@pytest.mark.model
def test_film_reviews_are_10605_rated_sentences(reviews: list[Rated]) -> None:
    assert len(reviews) == 10_605
    assert sum(abs(one.rating) >= accuracy.CLEAR for one in reviews) == 10_072
    assert reviews[2] == Rated(-0.6, "Effective but too tepid biopic")


@pytest.mark.slow
@pytest.mark.model
def test_eight_bits_and_outliers_help_on_minilm(minilm: Any, reviews: list[Rated]) -> None:
    """[olive Tbl. 6-9]: the order of the embeddings' errors, on a few sentences of docs/claims-measurements.md."""
    test, _ = accuracy.split(reviews, 24)
    exact = accuracy.embeddings(FloatEncoder(minilm), minilm, test)
    names = ("fp16", "olive-8", "olive-4", "int4 without outliers")
    ready = (models.prepare(minilm, accuracy.SCHEMES[name], Jit(threads=2)) for name in names)
    fp16, eight, four, int4 = (accuracy.error(accuracy.embeddings(one, minilm, test), exact) for one in ready)

    assert fp16 < eight / 20
    assert eight < four / 3
    assert four < int4 / 2
