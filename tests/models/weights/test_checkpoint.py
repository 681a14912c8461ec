"""Settings and tensors of a file under canonical names; missing, misshapen or foreign ones are rejected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.weights.checkpoint import Renamed, Settings, read_json
from refemu.models.weights.files import GgufFile, open_weights
from tests.models import toy_files
from tests.models.toy_files import CONFIG


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_weights_are_found_by_canonical_name(tmp_path: Path, kind: str) -> None:
    given = toy_files.values(CONFIG)
    file: Any = (
        GgufFile(toy_files.write_gguf(tmp_path / "toy.gguf", given))
        if kind == "gguf"
        else open_weights(toy_files.write_safetensors(tmp_path, given) / "model.safetensors")
    )
    renamed = Renamed(file, CONFIG, toy_files.raw_name_gguf if kind == "gguf" else toy_files.raw_name_hf)

    assert renamed.names == tuple(CONFIG.shapes)
    assert repr(renamed) == f"Renamed({file!r})"
    for name, shape in CONFIG.shapes.items():
        assert renamed.shape(name) == shape and np.array_equal(renamed.tensor(name), given[name])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file.*the sizes of a safetensors model are in this file", id="missing"),
        pytest.param("{", "not JSON", id="cut"),
        pytest.param("[" * 100_000, "not JSON: nested too deep", id="nested"),
        pytest.param("[]", "a JSON object is needed, got list", id="list"),
    ],
)
def test_an_unreadable_config_is_rejected(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)

    with pytest.raises(Refused, match=message):
        read_json(tmp_path / "config.json")


def test_an_unread_setting_is_rejected() -> None:
    """It might change every logit without a word."""
    content = {"width": 3, "use_cache": True, "new_norm": "triple"}
    read = Settings("config.json: ", content.get)
    read.whole("width")
    read.require_all_read(["width", "use_cache"], {"use_cache"})

    with pytest.raises(Refused, match=r"config.json: new_norm is not a setting that refemu models, got 'triple'"):
        read.require_all_read(content, {"use_cache"})


@pytest.mark.parametrize("given", [None, 5, "1", ["1"], [1, True]])
def test_a_list_of_numbers_is_one(given: Any) -> None:
    read = Settings("config.json: ", {"factor": given, "good": [1, 2.5]}.get)

    assert read.reals("good") == (1.0, 2.5)
    with pytest.raises(Refused, match=r"config.json: factor must be a list of numbers, got"):
        read.reals("factor")
