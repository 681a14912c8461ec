"""Configurations of units."""

import pytest

from refemu.units.unit import Config


def test_config_is_a_frozen_mapping_that_evaluates_back() -> None:
    config = Config(outlier=(2, 1), normal="int4")

    assert repr(config) == "Config(normal='int4', outlier=(2, 1))" and eval(repr(config)) == config
    assert dict(config) == {"normal": "int4", "outlier": (2, 1)} and len(config) == 2
    assert hash(config) == hash(Config(normal="int4", outlier=(2, 1)))
    assert config != Config(normal="int8", outlier=(2, 1))
    with pytest.raises(TypeError):
        config["normal"] = "int8"  # type: ignore[index]
