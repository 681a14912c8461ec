"""The table of the probe: shares with their sampling error."""

import math

import pytest

from refemu import models
from refemu.studies.accuracy import Row
from refemu.studies.output import accuracy_table


def test_shares_have_binomial_errors() -> None:
    rows = [Row("fp32", "", 0.75, 1.0, 0.0), Row("olive-8", "olive-8", 0.5, 0.9, 0.1)]
    table = accuracy_table.table(models.load("tiny-encoder"), rows, 101, "film-reviews")
    first, second = table.document()["rows"]

    assert "tiny-encoder (untrained random weights): 101 sentences of film-reviews" in table.title
    assert (first["accuracy"], first["agreement_error"]) == (75, 0)
    assert second["accuracy_error"] == pytest.approx(100 * math.sqrt(0.25 / 100))
    assert second["agreement_error"] == pytest.approx(100 * math.sqrt(0.09 / 100))
