"""Models in files and folders; weights that are absent or wrong say what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import load
from refemu.models.fetch import store
from tests.models import toy_encoder, toy_files


@pytest.fixture(autouse=True)
def empty_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "model" not in request.keywords:
        monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))


def test_a_gguf_file_is_a_model(tmp_path: Path) -> None:
    given = toy_files.values(toy_files.CONFIG)
    path = toy_files.write_gguf(tmp_path / "toy.gguf", given)
    model = load(path)

    assert (model.name, model.config, model.sha256) == ("toy", toy_files.CONFIG, store.digest(path))
    assert np.array_equal(model.tensor("blk.1.down"), given["blk.1.down"])
    assert model.tokenizer.decode(model.tokenizer.encode("in the 12")) == "in the 12"
    assert model.tokenizer is model.tokenizer


def test_folder_with_safetensors_is_model_named_after_it(tmp_path: Path) -> None:
    given = toy_files.values(toy_files.CONFIG)
    model = load(toy_files.write_safetensors(tmp_path / "small", given))

    assert (model.name, model.config.rope_interleaved) == ("small", False)
    assert np.array_equal(model.tensor("blk.1.down"), given["blk.1.down"])
    with pytest.raises(Refused, match="the folder of the weights has no tokenizer; give token ids"):
        _ = model.tokenizer


def test_absent_weights_say_how_to_fetch_them() -> None:
    with pytest.raises(Refused, match="weights of smollm2-135m are not here; run: refemu models fetch smollm2-135m"):
        load("smollm2-135m")


def test_wrong_weights_are_rejected_with_both_hashes(tmp_path: Path) -> None:
    file = tmp_path / "home" / "models" / "smollm2-135m" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"GGUF")

    message = f"sha256 is {store.digest(file)}, .* must have b179c952.*; nothing was changed; run: refemu models remove"
    with pytest.raises(Refused, match=message):
        load("smollm2-135m")
    assert file.read_bytes() == b"GGUF"


def test_text_is_not_a_model() -> None:
    with pytest.raises(Refused, match="film-reviews is a text, not a model"):
        load("film-reviews")


@pytest.mark.model
def test_smollm2_has_its_sizes_and_its_hash(smollm2: Any) -> None:
    c = smollm2.config

    assert (c.blocks, c.width, c.ffn, c.heads, c.kv_heads, c.head_dim) == (30, 576, 1536, 9, 3, 64)
    assert (c.vocab, c.context, c.rope_base, c.rms_eps) == (49_152, 8192, 100_000.0, 9.999999747378752e-06)
    assert c.tied_head and c.rope_interleaved
    assert smollm2.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_a_folder_with_an_encoder_is_a_model(tmp_path: Path) -> None:
    given = toy_encoder.values(toy_encoder.CONFIG)
    model = load(toy_encoder.write(tmp_path / "small", given))

    assert (model.name, model.config) == ("small", toy_encoder.CONFIG)
    assert np.array_equal(model.tensor("blk.1.down.bias"), given["blk.1.down.bias"])
    assert model.tokenizer.decode(model.tokenizer.sentence("in the")) == "[CLS] in the [SEP]"


@pytest.mark.model
def test_minilm_has_its_sizes_and_its_hash(minilm: Any) -> None:
    c = minilm.config

    assert (c.blocks, c.width, c.ffn, c.heads, c.head_dim) == (6, 384, 1536, 12, 32)
    assert (c.vocab, c.context, c.token_types, c.norm_eps) == (30_522, 512, 2, 1e-12)
    assert minilm.sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.mark.parametrize(
    "name", ["./nothing", "HuggingFaceTB/SmolLM2-135M", "nothing.gguf", "../nothing", "a/model.safetensors"]
)
def test_missing_path_error_says_what_to_give(name: str) -> None:
    with pytest.raises(
        Refused, match=f"model {name}: no such file or folder; give a name of `refemu models list`"
    ) as no:
        load(name)

    assert "a .gguf or .safetensors file, or a folder with config.json" in str(no.value)


def test_unknown_word_may_be_a_path() -> None:
    with pytest.raises(
        Refused, match=r"unknown model 'gpt2'; did you mean 'tiny-gpt2'\? Or give the path of .*\./gpt2$"
    ):
        load("gpt2")
