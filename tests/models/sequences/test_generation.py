"""Generated text: greedy and sampled, the same for the same seed, by definition in Python integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu import models
from refemu.arith import prng
from refemu.arith.checks import Refused
from refemu.models.sequences.generation import STREAM, UNIT, Chooser
from tests.oracles.exp import exp32
from tests.oracles.fp16 import f32

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=9)


@given(LOGITS, st.floats(0.125, 4, width=16), st.integers(0, 9), st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_sampled_token_is_the_definition(row: list[float], temperature: float, k: int, seed: int, number: int) -> None:
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    weights = [round(exp32(f32(f32(value - max(row)) / temperature)) * int(UNIT)) for value in row]
    weights = [weight if not k or token in order[:k] else 0 for token, weight in enumerate(weights)]
    left = int(prng.words(prng.stream(STREAM, seed), number, 1)[0]) * sum(weights) >> 64
    token = 0
    while left >= weights[token]:
        left -= weights[token]
        token += 1

    assert Chooser(temperature, k, seed).choose(np.array(row, np.float32), number) == token


def test_greedy_text_is_that_of_greedy() -> None:
    prepared = models.prepare("tiny", "leankv-k8v4")
    found = models.generate_text("tiny", "hello", scheme=prepared, tokens=12)

    assert list(found.ids) == models.greedy(prepared, list(b"hello"), 12)
    assert found.text == bytes(found.ids).decode("utf-8", "replace") and found.scheme == "leankv-k8v4"
    assert found.tokens_per_second == 12 / found.seconds


def test_same_seed_same_tokens_and_other_seed_others() -> None:
    same = [models.generate_text("tiny", "hello", tokens=16, temperature=2.0, seed=seed).ids for seed in (4, 4, 5)]

    assert same[0] == same[1] != same[2]


def test_generation_ends_when_shown_says_so() -> None:
    seen: list[int] = []

    def shown(token: int) -> bool:
        seen.append(token)
        return len(seen) == 3

    assert models.generate_text("tiny", "hello", tokens=16, shown=shown).ids == tuple(seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"temperature": -1.0}, r"temperature must be 0, or in \[.*\], got -1.0", id="temperature"),
        pytest.param({"temperature": float("nan")}, r"temperature must be 0, or in \[.*\], got nan", id="nan"),
        pytest.param({"temperature": 1e39}, r"temperature must be 0, or in \[.*\], got 1e\+39", id="above float32"),
        pytest.param({"temperature": 1e-46}, r"temperature must be 0, or in \[.*\], got 1e-46", id="below float32"),
        pytest.param({"top_k": 3}, "top_k needs a temperature above 0, got top_k 3", id="top_k"),
        pytest.param({"tokens": 0}, "tokens must be in", id="tokens"),
        pytest.param({"tokens": 5000}, "must fit in the context of", id="context"),
        pytest.param({"seed": -1}, "seed must be in", id="seed"),
        pytest.param({"ids": [1]}, "ids replace the text, got both", id="both"),
    ],
)
def test_invalid_parameters_of_generation_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.generate_text("tiny", "hello", **options)  # type: ignore[arg-type]


def test_infinite_logits_choose_no_token() -> None:
    with pytest.raises(Refused, match="must be finite to choose a token"):
        Chooser().choose(np.array([1, np.inf], np.float32), 0)
