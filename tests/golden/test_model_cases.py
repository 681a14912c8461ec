"""Which blocks, tokens and rows of a run are kept, and that a manifest is enough to repeat it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refemu.units
from refemu import golden, models
from refemu.arith.checks import Refused
from refemu.golden import model_cases, sets
from refemu.models.taps import model_case
from tests.golden import fakes


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ({0: 1.0, 1: 9.0, 2: 3.0}, {0: "the first", 1: "its linear inputs peak highest", 2: "the last"}),
        ({0: 9.0, 1: 1.0}, {0: "the first, and its linear inputs peak highest", 1: "the last"}),
        ({0: 1.0, 1: 5.0, 2: 5.0, 3: 1.0}, {0: "the first", 1: "its linear inputs peak highest", 3: "the last"}),
        ({0: 1.0}, {0: "the first, and the last, and its linear inputs peak highest"}),
        ({-1: 99.0, 0: 1.0, 1: 2.0}, {0: "the first", 1: "the last, and its linear inputs peak highest"}),
    ],
)
def test_blocks_that_are_kept(peaks: dict[int, float], expected: dict[int, str]) -> None:
    """Block -1 is the output matrix, which is no block."""
    assert expected == model_cases.chosen_layers(peaks)


class Run:
    """A prepared model of four blocks; block 2 has the highest input, each block taps blender with three tokens."""

    name = "toy"

    def linear(self, layer: int, names: tuple[str, ...], x: np.ndarray, watch: Any) -> str:
        return f"projection of {layer}"


class Session:
    """What `models.session` makes of it."""

    def __init__(self, prepared: Any, tap: Any) -> None:
        self.prepared, self.tap = prepared, tap

    def append(self, ids: list[int]) -> None:
        for layer in range(4):
            x = np.full((3, 2), -100.0 if layer == 2 else 1.0, np.float32)
            assert self.prepared.linear(layer, ("q",), x, None) == f"projection of {layer}"
            first = np.array([1, 2, 3, 15, 5, 15]) + np.zeros(6, int)
            inputs = {"first": first, "second": np.array([1, 1, 1, 7, 1, 1])}
            self.tap(
                layer,
                "blender",
                model_case(
                    "input of q",
                    "wrap",
                    f"blk.{layer}.q.input",
                    layer,
                    inputs,
                    first_token=10,
                    tokens=3,
                    pairs_per_token=2,
                ),
            )
            self.tap(
                layer,
                "blender",
                model_case(
                    "a row",
                    "wrap",
                    f"blk.{layer}.q.weight",
                    layer,
                    {name: array[:1] for name, array in inputs.items()},
                    row=5,
                ),
            )
        assert self.prepared.name == "toy"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> model_cases.Source:
    monkeypatch.setattr(refemu.units, "find", lambda name: fakes.UNITS[name])
    monkeypatch.setattr(models, "prepare", lambda *arguments, **keywords: Run())
    monkeypatch.setattr(models, "session", Session)
    model_cases.forget()
    return model_cases.Source("toy", "0", "s", {}, "1", 0, 3, (1, 2, 3))


def test_tokens_and_rows_that_are_kept(toy: model_cases.Source) -> None:
    """Tokens 1 and 2 have one flagged row each: the first of them counts. Other cases stay whole."""
    kept = model_cases.tapped(toy)[("blender", "wrap")]

    assert [case.source["tensor"] for case in kept] == [
        "blk.0.q.input",
        "blk.0.q.input",
        "blk.0.q.weight",
        "blk.2.q.input",
        "blk.2.q.input",
        "blk.2.q.weight",
        "blk.3.q.input",
        "blk.3.q.input",
        "blk.3.q.weight",
    ]
    assert [case.inputs["first"].tolist() for case in kept[:3]] == [[1, 2], [3, 15], [1]]
    assert kept[4].why == (
        "blk.2.q.input (block 2: its linear inputs peak highest): input of q, all rows of token 11 "
        "(it has the most flagged rows)"
    )
    assert kept[4].source == {
        "tensor": "blk.2.q.input",
        "layer": 2,
        "first_token": 11,
        "tokens": 1,
        "pairs_per_token": 2,
    }
    assert kept[8].why == "blk.3.q.weight (block 3: the last): a row"


def test_one_run_serves_many_sets_until_it_is_forgotten(toy: model_cases.Source) -> None:
    first = model_cases.tapped(toy)

    assert first is model_cases.tapped(toy)
    model_cases.forget()
    assert first is not model_cases.tapped(toy)


def test_defaults_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found = model_cases.source(None, None, None, 5)

    assert (found.model, found.scheme, found.first_token, found.tokens, len(found.token_ids)) == (
        "tiny",
        "olive-4",
        0,
        5,
        5,
    )
    assert found.weights_sha256 == models.load("tiny").sha256
    assert {"weight_bits": 4, "act_bits": 4}.items() <= found.scheme_config.items()
    assert (2, model_cases.manifests.sha256(b"ab")) == (
        (other := model_cases.source(None, "fp16", "ab", None)).tokens,
        other.text_sha256,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tin", None, None, None), "did you mean 'tiny'"),
        ((None, "olive-5", None, None), "did you mean 'olive-"),
        ((None, None, "", None), "the text holds no token"),
    ],
)
def test_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        model_cases.source(*arguments)


def test_a_recorded_run_needs_no_text() -> None:
    source = model_cases.source(None, None, "some text", 4)
    entry = json.loads(json.dumps(model_cases.described(source)))

    assert source == model_cases.recorded(entry)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights_sha256": "0" * 64}, "weights of tiny have sha256 .*, the set was made from 0000"),
        ({"model": "no-such-model"}, "no-such-model"),
    ],
)
def test_weights_that_are_absent_or_others(change: dict[str, Any], message: str) -> None:
    entry = {**model_cases.described(model_cases.source(None, None, "some text", 4)), **change}

    with pytest.raises(model_cases.Absent, match=message):
        model_cases.recorded(entry)


def test_from_the_weights_of_tiny_to_vectors(tmp_path: Path) -> None:
    """The whole way, and back through `check`."""
    made = golden.generate(tmp_path, units=["ovp_decoder", "olive_mac"], kinds=["paper", "model"], tokens=6)
    report = golden.check(tmp_path)

    assert report.equal
    assert {"regenerated"} == {one.how for one in report.sets}
    assert {"paper", "model"} == {kind for one in made for kind in one.kinds}
    with_model = [sets.load(one.path) for one in made if "model" in one.kinds]
    assert {"ovp_decoder", "olive_mac"} == {one.manifest["unit"] for one in with_model}
    for one in with_model:
        assert (one.manifest["source"]["model"], len(one.manifest["source"]["token_ids"])) == ("tiny", 6)
        for entry in one.manifest["cases"]:
            assert (entry["kind"] == "model") == ("source" in entry)
