"""The JSON follows its schema, and a folder always gives the same bytes."""

import dataclasses
from pathlib import Path

import fastjsonschema
import pytest

from refemu.golden.report import document
from refemu.golden.report.regression import Regression, Reported, regression
from tests.golden.report.conftest import campaign, reread

VALID = fastjsonschema.compile(document.schema())


def test_the_document_follows_the_schema(outcome: Regression, run: Path) -> None:
    campaign(run / "c")
    (run / "stray.log").write_text("FAIL 3 of 4 rows differ\n")
    (run / "ovp_decoder-int4" / "manifest.json").write_text("{}")
    for each in (outcome, regression(run, "none")):
        text = document.text(each)
        VALID(reread(text))
        assert text.isascii() and text.endswith("}\n")


def test_schema_rejects_unknown_fields(outcome: Regression) -> None:
    known = reread(document.text(outcome))
    for change in ({"outcome": "PASS"}, {"more": 1}, {"exit_code": 3}, {"counts": {"pass": 1}}, {"sets": [{}]}):
        with pytest.raises(fastjsonschema.JsonSchemaException):
            VALID({**known, **change})


def test_every_field_is_in_the_schema(outcome: Regression) -> None:
    """Every field of the schema has a value in some document."""
    (named,) = [document.schema()["properties"]["sets"]["items"]["properties"]]
    assert set(named) == {field.name for field in dataclasses.fields(Reported)}
    assert set(document.document(outcome)) == set(document.schema()["properties"])


def test_a_difference_is_the_document_of_diff(outcome: Regression) -> None:
    (each,) = [each for each in document.document(outcome)["sets"] if each["path"] == "olive_mac-wrap"]
    difference = each["answers"][0]["difference"]
    assert difference["explanations"][0]["id"] == "row_shift" and difference["first"]["port"] == "acc"
    assert each["coverage"]["grade"]["classes"]["bits"]["missed"] == 17


def test_the_same_folder_gives_the_same_bytes(outcome: Regression, made_once: Path) -> None:
    assert document.text(regression(made_once)) == document.text(outcome)
