"""Schemes assign a paper's units to the parts of the transformer; `registry` has them by name."""

from refemu.models.schemes.registry import (
    SCHEMES,
    describe,
    find,
    ignores_calibration,
    name,
    parameters,
    parse,
    plugged,
    register,
    taps,
    text,
)

__all__ = [
    "SCHEMES",
    "describe",
    "find",
    "ignores_calibration",
    "name",
    "parameters",
    "parse",
    "plugged",
    "register",
    "taps",
    "text",
]
