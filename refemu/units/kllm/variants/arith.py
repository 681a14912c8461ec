"""Variants that change one field of a unit's KllmArith."""

from dataclasses import replace
from functools import partial
from typing import Any

from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units import Config, Variant


def option(decision: str, says: str, **fields: Any) -> Variant:
    """A variant with other values for some fields of the arithmetic."""
    return Variant(decision, says, partial(_with, fields))


def _with(fields: dict[str, Any], config: Config) -> Config:
    return Config(**{**config, "preset": replace(KllmArith.preset(config["preset"]), **fields)})
