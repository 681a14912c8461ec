"""What crosses the ports of LeanKV's units while a model runs."""

from typing import Any

UNITS = ("generation_compressor", "kv_quantizer", "page_manager", "paged_attention", "prompt_compressor",
         "significance")


def prompted(*arguments: Any) -> None:
    """A prompt in one layer."""


def stepped(*arguments: Any) -> None:
    """A step in one layer."""
