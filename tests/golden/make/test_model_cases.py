"""Selected blocks, tokens and rows of a run, and its repetition from a manifest."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import refemu.units
from refemu import golden, models
from refemu.arith.checks import Refused
from refemu.golden.files import sets
from refemu.golden.make import model_case_choice, model_cases
from refemu.models.taps import model_case
from tests.golden import fakes


class Run:
    """A prepared model of four blocks; block 2 has the largest input, each block taps blender with three tokens."""

    name, model, config = "toy", None, models.Scheme()

    def linear(self, layer: int, names: tuple[str, ...], x: np.ndarray, watch: Any) -> str:
        return f"projection of {layer}"


class Session:
    """Replaces `models.session`."""

    def __init__(self, prepared: Any, tap: Any) -> None:
        self.prepared, self.tap = prepared, tap

    def append(self, ids: list[int]) -> None:
        assert self.prepared.name == "toy" and self.tap.units == {"blender"}
        for layer in range(4):
            x = np.full((3, 2), -100.0 if layer == 2 else 1.0, np.float32)
            assert self.prepared.linear(layer, ("q",), x, None) == f"projection of {layer}"
            first = np.array([1, 2, 3, 15, 5, 15])
            rows = {"first_token": 10, "tokens": 3, "pairs_per_token": 2}
            inputs = {"first": first, "second": np.array([1, 1, 1, 7, 1, 1])}
            self.tap(layer, "blender", model_case("input", "wrap", f"blk.{layer}.q.input", layer, inputs, **rows))
            for name, largest in (("q", 3), ("k", 5 + layer), ("v", 5)):
                row = {port: array[:1] for port, array in inputs.items()}
                tensor = f"blk.{layer}.{name}.weight"
                self.tap(layer, "blender", model_case("a row", "wrap", tensor, layer, row, row=5, largest=largest))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> model_cases.Source:
    monkeypatch.setattr(refemu.units, "find", lambda name: fakes.UNITS[name])
    monkeypatch.setattr(models, "prepare", lambda *arguments, **keywords: Run())
    monkeypatch.setattr(models, "session", Session)
    monkeypatch.setattr(models.schemes, "parse", lambda text: models.Scheme())
    monkeypatch.setattr(models.schemes, "taps", lambda config: ("blender",))
    monkeypatch.setattr(model_case_choice, "WINDOW", 3)
    model_cases.forget()
    return model_cases.Source("toy", "0", "s", {}, "1", 0, 3, (1, 2, 3))


def test_selected_tokens_and_rows(toy: model_cases.Source) -> None:
    """Tokens 1 and 2 have one flagged row each, so the first counts; of equally large cases, too, the first."""
    kept = model_cases.tapped(toy)[("blender", "wrap")]

    assert [case.source["tensor"] for case in kept] == [
        tensor
        for layer in (0, 2, 3)
        for tensor in (f"blk.{layer}.q.input", f"blk.{layer}.q.input", f"blk.{layer}.k.weight")
    ]
    assert [case.inputs["first"].tolist() for case in kept[:3]] == [[1, 2], [3, 15], [1]]
    assert kept[4].why == (
        "blk.2.q.input (block 2: its linear inputs peak highest): input, rows 0 to 1 of 2 of token 11 "
        "(the token with the most flagged rows)"
    )
    assert kept[4].source == {
        "tensor": "blk.2.q.input",
        "layer": 2,
        "first_token": 11,
        "tokens": 1,
        "pairs_per_token": 2,
        "first_pair": 0,
        "pairs": 2,
    }
    assert kept[8].why == (
        "blk.3.k.weight (block 3: the last): a row, of the linear layers here the one where it is largest"
    )


def test_model_runs_only_for_tapped_units(toy: model_cases.Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "prepare", lambda *arguments, **keywords: pytest.fail("the model was prepared"))

    assert model_cases.tapped(toy, units_=["meter"]) == {}
    monkeypatch.setattr(models.schemes, "taps", lambda config: ())
    assert model_cases.tapped(toy) == {}


def test_run_is_cached_until_forgotten(toy: model_cases.Source) -> None:
    first = model_cases.tapped(toy)

    assert first is model_cases.tapped(toy)
    model_cases.forget()
    assert first is not model_cases.tapped(toy)


def test_defaults_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (2, model_cases.manifest.sha256(b"ab")) == (
        (other := model_cases.source(None, "fp16", "ab", None)).tokens,
        other.text_sha256,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tin", None, None, None), "did you mean 'tiny'"),
        ((None, "olive-5", None, None), "did you mean 'olive-"),
        ((None, None, "", None), "the text must have a token, got none"),
        ((None, None, None, 0), "tokens must be at least 1, got 0"),
    ],
)
def test_invalid_requests_are_rejected(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        model_cases.source(*arguments)


def test_a_recorded_run_needs_no_text() -> None:
    source = model_cases.source(None, None, "some text", 4)
    entry = json.loads(json.dumps(model_cases.described(source)))

    assert source == model_cases.recorded(entry)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights_sha256": "0" * 64}, "weights of tiny have sha256 .*, those of the set have 0000"),
        ({"model": "no-such-model"}, "no-such-model is not a model of `refemu models list`"),
        ({"model": "/etc/hostname"}, "the set came from a weight file"),
    ],
)
def test_missing_or_different_weights_raise_absent(change: dict[str, Any], message: str) -> None:
    entry = {**model_cases.described(model_cases.source(None, None, "some text", 4)), **change}

    with pytest.raises(model_cases.Absent, match=message):
        model_cases.recorded(entry)


def test_fields_of_a_recorded_scheme_are_rederived() -> None:
    """`check` thereby finds a manifest whose parameters differ from those of its vectors."""
    source = model_cases.source(None, None, "some text", 4)
    entry = {**model_cases.described(source), "scheme_config": {}, "tokens": 9}

    assert source == model_cases.recorded(entry)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model", [], r"model must be a text, got \[\]"),
        ("scheme", None, "scheme must be a text, got None"),
        ("token_ids", "12", "token_ids must be integers"),
        ("token_ids", [True], "token_ids must be integers"),
        ("token_ids", [1 << 40], "token_ids must be integers"),
        ("token_ids", 5, "token_ids must be integers"),
    ],
)
def test_source_of_wrong_types_is_rejected(field: str, value: Any, message: str) -> None:
    entry = {**model_cases.described(model_cases.source(None, None, "some text", 4)), field: value}

    with pytest.raises(Refused, match=message):
        model_cases.recorded(entry)


@pytest.mark.parametrize("entry", [{}, {"model": "tiny"}])
def test_invalid_source_is_rejected(entry: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="source of model cases: must hold model, weights_sha256"):
        model_cases.recorded(entry)


def test_cases_come_from_weights_with_their_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight file may have the name of a built-in model."""
    other = dataclasses.replace(models.load("tiny"), sha256="2" * 64)
    monkeypatch.setattr(models, "load", lambda name: other)
    source = model_cases.source("tiny.gguf", None, "some text", 4)

    class Seen(Exception):
        pass

    def prepare(model: Any, scheme: str, progress: Any) -> None:
        assert model is other
        raise Seen

    monkeypatch.setattr(models, "prepare", prepare)
    assert (source.model, source.weights_sha256) == ("tiny", "2" * 64)
    with pytest.raises(Seen):
        model_cases.tapped(source)
    model_cases.forget()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_tiny_gives_sets_that_pass_check(scheme: str, tmp_path: Path) -> None:
    """Generation and `check` for every unit that the scheme taps, and for operations of other sizes.

    No ready array has the model's K, and one pair of types is that of the ready clocked one; the lines that say so name
    configurations that have them.
    """
    config: Any = models.schemes.parse(scheme)
    chosen = [name for name in refemu.units.names() if name.startswith(("o", "m", "f"))]
    fewer = f"{scheme}:low=90,high=130,step=10,calibration_tokens=64"
    made = golden.generate(tmp_path, units=chosen, kinds=["paper", "model"], tokens=6, scheme=fewer)
    asked = [line.partition("--unit ")[2].removesuffix(" has them") for one in made for line in one.elsewhere]
    made += golden.generate(tmp_path, units=asked, kinds=["paper", "model"], tokens=6, scheme=fewer)
    report = golden.check(tmp_path)

    clocked = {"olive_systolic_clocked"} if scheme == "olive-4" else set()  # types other than the ready array's
    assert {"olive_systolic"} | clocked == {spec.partition(":")[0] for spec in asked}
    assert report.equal
    assert {"regenerated"} == {one.how for one in report.sets}
    assert {"paper", "model"} == {kind for one in made for kind in one.kinds}
    with_model = [sets.load(one.path) for one in made if "model" in one.kinds]
    assert set(models.schemes.taps(config)) == {one.manifest["unit"] for one in with_model}
    for one in with_model:
        assert (one.manifest["source"]["model"], len(one.manifest["source"]["token_ids"])) == ("tiny", 6)
        for entry in one.manifest["cases"]:
            assert (entry["kind"] == "model") == ("source" in entry)


def test_an_encoder_reads_its_text_at_once(tmp_path: Path) -> None:
    fewer = "olive-8:low=90,high=130,step=10,calibration_tokens=64"
    made = golden.generate(
        tmp_path, units=["ovp_encoder", "olive_pe8"], kinds=["model"], model="tiny-encoder", tokens=6, scheme=fewer
    )

    assert {"ovp_encoder-int8", "olive_pe8-wrap"} == {one.name for one in made}
    assert golden.check(tmp_path).equal


def test_two_phase_schemes_give_cases_of_both(toy: model_cases.Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half is the prompt, the second the generated tokens."""
    parts: list[list[int]] = []
    append = Session.append
    monkeypatch.setattr(Session, "append", lambda self, ids: (parts.append(list(ids)), append(self, ids))[1])
    model_cases.tapped(toy)
    monkeypatch.setattr(Run, "config", SimpleNamespace(two_phases=True))
    model_cases.forget()
    model_cases.tapped(toy)

    assert parts == [[1, 2, 3], [1, 2], [3]]
