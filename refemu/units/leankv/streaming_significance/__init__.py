"""Significance of tokens from logits, tile by tile, without the matrix of probabilities."""

from refemu.units.leankv.streaming_significance.streaming_significance import (
    UNIT,
    Rescale,
    State,
    StreamingSignificance,
    run,
)

__all__ = ["UNIT", "Rescale", "State", "StreamingSignificance", "run"]
