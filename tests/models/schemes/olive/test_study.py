"""Scheme `olive-study`: the experiments of Fig. 3 on weights and linear inputs, everything else as scheme `fp16`."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes, text
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.olive.config import EXPERIMENTS, OliveStudyConfig
from refemu.models.scores import perplexity
from refemu.models.taps import Watch
from tests.oracles import prng
from tests.oracles.olive import ovp_study
from tests.oracles.sums import f16

IDS = list(b"She was only Anne. ")
CALIBRATION = list(b"It is a truth universally acknowledged")


class Replaced:
    """The weights of `tiny`, the linear layers' after an experiment in plain Python."""

    def __init__(self, experiment: str) -> None:
        self.inner, self.experiment = models.load("tiny"), experiment
        self.names = self.inner.weights.names

    def shape(self, name: str) -> tuple[int, ...]:
        return self.inner.config.shapes[name]

    def tensor(self, name: str) -> np.ndarray:
        found = self.inner.tensor(name)
        if not name.startswith("blk.") or found.ndim == 1:
            return found
        rows = found.tolist()
        return np.array(change(self.experiment, rows, ovp_study.bound(rows), name), np.float32)


def change(experiment: str, rows: Any, limit: float, name: str) -> Any:
    """An experiment on a whole weight."""
    if experiment == "clip":
        return ovp_study.clip(rows, limit)
    if experiment == "prune_victims":
        return ovp_study.victims(rows, limit)
    flat = [value for row in rows for value in row]
    pruned = ovp_study.normals(flat, limit, prng.stream(f"olive-study/{name}", 0))
    return [pruned[at : at + len(rows[0])] for at in range(0, len(flat), len(rows[0]))]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_weights_are_those_of_the_experiment(experiment: str) -> None:
    """[olive Fig. 3], D-olive-44; the weights change before they are rounded to fp16, nothing else does."""
    model = models.load("tiny")
    changed = Model("tiny", model.config, Replaced(experiment), "", model.make_tokenizer)
    found = models.run(model, IDS, f"olive-study:experiment={experiment},inputs=false").logits

    assert found.tobytes() == models.run(changed, IDS, "fp16").logits.tobytes()
    assert found.tobytes() != models.run(model, IDS, "fp16").logits.tobytes()


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_inputs_are_those_of_the_experiment(experiment: str) -> None:
    """[olive Fig. 3], D-olive-43: three sigma of the calibration tokens; D-olive-44: normals are counted per token."""
    config = OliveStudyConfig(experiment=experiment, weights=False)
    study, plain = (models.prepare("tiny", scheme, calibration=CALIBRATION) for scheme in (config, "fp16"))
    inputs = [plain.norm("blk.0.attn_norm", plain.embed(np.array(ids))) for ids in (CALIBRATION, IDS)]
    limit, rows = ovp_study.bound(inputs[0].tolist()), inputs[1].tolist()
    seed, watch, width = prng.stream("olive-study/blk.0.q.input", 0), Watch(), len(rows[0])
    watch.first_token = 5
    wanted = (
        [ovp_study.normals(row, limit, seed, (5 + at) * width) for at, row in enumerate(rows)]
        if experiment == "prune_normals"
        else change(experiment, rows, limit, "")
    )
    read = np.array([[f16(value) for value in row] for row in wanted], np.float32)

    assert not np.array_equal(read, inputs[1])
    for found, expected in zip(
        study.linear(0, ("q", "k", "v"), inputs[1], watch), plain.linear(0, ("q", "k", "v"), read, watch), strict=True
    ):
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_decoding_gives_bits_of_prompt_on_both_backends(experiment: str) -> None:
    """D-olive-44: pairs and pruned normal values are inside a token, whose random words follow from its position."""
    config = OliveStudyConfig(experiment=experiment)
    prepared = models.prepare("tiny", config, calibration=CALIBRATION)
    session = models.session(prepared)
    rows = np.concatenate([session.append(IDS[:7]), *(session.append([token]) for token in IDS[7:])])

    assert rows.tobytes() == models.run("tiny", IDS, prepared).logits.tobytes()
    assert rows.tobytes() == models.run("tiny", IDS, config, "numpy", calibration=CALIBRATION).logits.tobytes()


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_encoders_go_through_the_same_experiments(experiment: str) -> None:
    """[olive Fig. 3]: the paper's own model is an encoder. Both backends; off, it is scheme `fp16`."""
    found, numpy = (
        models.encode("tiny-encoder", IDS, f"olive-study:experiment={experiment}", backend, None, CALIBRATION)
        for backend in ("jit", "numpy")
    )
    off = models.encode("tiny-encoder", IDS, f"olive-study:experiment={experiment},weights=false,inputs=false")

    assert found.tobytes() == numpy.tobytes() != off.tobytes()
    assert off.tobytes() == models.encode("tiny-encoder", IDS, "fp16").tobytes()


def test_without_weights_and_inputs_it_is_fp16() -> None:
    found = models.run("tiny", IDS, "olive-study:weights=false,inputs=false").logits

    assert found.tobytes() == models.run("tiny", IDS, "fp16").logits.tobytes()


def test_parameters_change_bits() -> None:
    """D-olive-44: the seed chooses the normal values; D-olive-43: sigma is a parameter."""
    words = ("", ",seed=1", ",sigma=2.5", ",inputs=false", ",weights=false")
    found = {
        models.run("tiny", IDS, f"olive-study:experiment=prune_normals{word}", calibration=CALIBRATION).logits.tobytes()
        for word in words
    }

    assert len(found) == len(words)


def test_odd_numbers_of_inputs_are_allowed() -> None:
    """The last odd element of a row has no partner, and stays."""
    config = ModelConfig(blocks=1, width=7, ffn=9, heads=2, kv_heads=1, head_dim=4, vocab=256, context=64)
    values = {
        name: np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        for name, shape in config.shapes.items()
    }

    class Even:
        names = tuple(values)

        def shape(self, name: str) -> tuple[int, ...]:
            return values[name].shape

        def tensor(self, name: str) -> np.ndarray:
            return values[name]

    odd = Model("odd", config, Even(), "")
    scheme = OliveStudyConfig("prune_victims", sigma=1)

    assert np.isfinite(models.run(odd, IDS, scheme, calibration=CALIBRATION).logits).all()


def test_progress_and_repr() -> None:
    seen = []
    prepared = models.prepare(
        "tiny", "olive-study", calibration=CALIBRATION, progress=lambda *words: seen.append(words)
    )

    assert seen[-1] == ("inputs", 12, 12)
    assert repr(prepared) == f"OliveStudy('tiny', {OliveStudyConfig()!r}, backend='jit')"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            "experiment=prune",
            "experiment must be one of 'clip', 'prune_victims', 'prune_normals', got 'prune'",
            id="experiment",
        ),
        pytest.param("weights=yes", "weights must be one of True, False, got 'yes'", id="weights"),
        pytest.param("inputs=none", "inputs must be one of True, False, got None", id="inputs"),
        pytest.param("sigma=0", "sigma must be a finite number above 0, got 0", id="sigma"),
        pytest.param("sigma=nan", "sigma must be a finite number above 0, got nan", id="nan"),
        pytest.param("sigma=three", "sigma must be a finite number above 0, got 'three'", id="word"),
        pytest.param("seed=-1", "seed must be an integer of at least 0, got -1", id="seed"),
        pytest.param("calibration_tokens=0", "calibration_tokens must be an integer of at least 1, got 0", id="tokens"),
    ],
)
def test_invalid_parameters_are_rejected(words: str, message: str) -> None:
    with pytest.raises(Refused, match=f"olive-study: {message}"):
        schemes.parse(f"olive-study:{words}")


def test_missing_calibration_tokens_are_rejected() -> None:
    with pytest.raises(Refused, match="needs calibration tokens, got none"):
        models.prepare("tiny", "olive-study", calibration=[])


@pytest.mark.slow
@pytest.mark.model
def test_clipping_outliers_hurts_most_on_smollm2(smollm2: Any) -> None:
    """[olive Fig. 3]: loss by clipping >> by pruning victims >= by pruning as many normal values."""
    ids = smollm2.tokenizer.encode(text.default())[:257]
    costs = {
        experiment: perplexity.perplexity(
            models.prepare(smollm2, f"olive-study:experiment={experiment}"), ids, win=257
        ).perplexity
        for experiment in EXPERIMENTS
    }

    assert costs["clip"] > 100 * costs["prune_victims"]
    assert costs["prune_victims"] >= costs["prune_normals"]
