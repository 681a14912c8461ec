"""The variants of a unit, and the rows that detect them."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.units import variant as other


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    golden.generate(tmp_path, units=["ovp_encoder:int4"], kinds=["paper", "edge"])
    return tmp_path / "ovp_encoder-int4"


def test_own_answers_are_not_listed() -> None:
    for config, says in (("wrap", "overflow is 'saturate'"), ("saturate", "overflow is 'wrap'")):
        (choice,) = golden.variants("olive_mac", config)
        assert (choice.decision, choice.says, choice.rows) == ("D-olive-33", says, None)
    assert "the larger of two outliers is stored" not in {each.says for each in golden.variants("ovp_encoder", "int4")}


def test_parameters_are_command_line_text() -> None:
    values = {choice.says: dict(choice.parameters) for choice in golden.variants("ovp_encoder", "int4")}
    assert values["the left element is in the high half"] == {"fmt": "OVP_INT4[left=high]"}
    assert values["a negative value is never an outlier"] == {"device": "a negative value is never an outlier"}


def test_counts_are_differing_rows(encoder: Path) -> None:
    unit, rows = units.find("ovp_encoder"), golden.load(encoder)
    config = unit.config("int4")
    counts = {choice.says: choice.rows for choice in golden.variants("ovp_encoder", "int4", encoder)}
    (variant,) = (each for each in unit.variants if each.says == "a negative value is never an outlier")
    device = other.device(unit, config, [variant])
    assert device is not None
    result = device.evaluate({"value": rows.arrays["in.value"]})
    differ = np.zeros(rows.rows, np.bool_)
    for port in ("pair", "kind", "raised"):
        differ |= (
            np.asarray(getattr(result, port)).reshape(rows.rows, -1)[:, 0]
            != rows.arrays[f"out.{port}"].reshape(rows.rows, -1)[:, 0]
        )
    assert counts[variant.says] == np.count_nonzero(differ) > 0


def test_set_of_another_unit_is_rejected(encoder: Path) -> None:
    with pytest.raises(Refused, match="is not a set of ovp_encoder in configuration int8"):
        golden.variants("ovp_encoder", "int8", encoder)
