"""Tokens that begin and end a text, from the files of models."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.models.sequences.special_tokens import special_tokens
from tests.models import toy_files


def test_built_in_model_has_none() -> None:
    assert special_tokens(models.load("tiny")) == (None, ())


@pytest.mark.parametrize(("stated", "ends"), [(7, (7,)), ([7, 9], (7, 9)), (None, ())])
def test_folder_has_those_of_its_config(stated: Any, ends: tuple[int, ...], tmp_path: Path) -> None:
    toy_files.write_safetensors(tmp_path / "toy", toy_files.values(toy_files.CONFIG))
    config = tmp_path / "toy" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "bos_token_id": 3, "eos_token_id": stated}))

    assert special_tokens(models.load(tmp_path / "toy")) == (3, ends)
