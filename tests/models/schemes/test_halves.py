"""Every scheme says which halves it has, and which of its parameters only one half reads."""

import dataclasses
from typing import Any, get_args

import pytest

from refemu.models import schemes
from refemu.models.schemes.halves import Half, Scope


@pytest.mark.parametrize("name", schemes.SCHEMES)
def test_halves_and_their_parameters_exist(name: str) -> None:
    config: Any = schemes.SCHEMES[name]
    fields = {field.name for field in dataclasses.fields(config)}

    assert config.halves and set(config.halves) <= set(get_args(Half))
    assert set(config.only) <= set(get_args(Scope))
    assert all(names <= fields for names in config.only.values())
    assert len(config.halves) == 2 or config.other_half
