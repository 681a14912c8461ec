"""Validate every JSON document that these tests print against its schema."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import fastjsonschema
import pytest

from refemu.cli import output, schema


@cache
def validator(form: str) -> Any:
    return fastjsonschema.compile(schema.schema(form))


@pytest.fixture(autouse=True)
def valid_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = output.json_text

    def text(document: Mapping[str, Any]) -> str:
        printed = plain(document)
        form = document["schema"].removeprefix("refemu.").partition("/")[0]
        validator(form)(json.loads(printed))
        return printed

    monkeypatch.setattr(output, "json_text", text)
