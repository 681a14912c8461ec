"""Loading by name: built-in models, and unknown names."""

import subprocess
import sys
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.models import load
from refemu.models.builtin import tiny, tiny_encoder


@pytest.fixture(autouse=True)
def empty_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "model" not in request.keywords:
        monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))


def test_tiny_is_always_here() -> None:
    model = load("tiny")

    assert (model.name, model.config, model.sha256) == ("tiny", tiny.CONFIG, tiny.sha256())
    assert model.tokenizer.decode(model.tokenizer.encode("any text ü")) == "any text ü"


def test_tiny_encoder_is_always_here() -> None:
    model = load("tiny-encoder")

    assert (model.name, model.config, model.sha256) == ("tiny-encoder", tiny_encoder.CONFIG, tiny_encoder.sha256())
    assert model.tokenizer.sentence("any text ü", 5) == list(b"any t")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("tini", "unknown model 'tini'; did you mean 'tiny'", id="misspelt"),
        pytest.param("no/such.gguf", r"no/such\.gguf: no such file", id="no file"),
        pytest.param(".", r"no model\.safetensors; refemu reads no \.bin files", id="folder without weights"),
    ],
)
def test_unknown_models_are_rejected(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Refused, match=message):
        load(name)


def test_built_in_model_imports_no_reader_of_files() -> None:
    code = "import sys; from refemu import models; models.load('tiny'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()

    assert "refemu.models.builtin.tiny" in loaded
    assert not {"refemu.models.model_files", "refemu.models.builtin.tiny_encoder", "refemu.models.encoder.runtime"} & {
        *loaded
    }
