"""Rotary positions: which channels are rotated, and by which frequencies [D-arith-8, D-arith-30].

Tables are float32 and grow with the positions used. A model with long factors has two tables; a text uses one of them
from its first token on (D-arith-31).
"""

import numpy as np

from refemu.arith import rotary
from refemu.arith.attention import rope_scaling
from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.config import ModelConfig


class Rotation:
    """Rotation of queries and keys by position."""

    def __init__(self, sizes: ModelConfig) -> None:
        self.sizes = sizes
        self._tables: dict[bool, tuple[np.ndarray, np.ndarray]] = {}

    def __repr__(self) -> str:
        return f"Rotation({self.sizes.rotated} of {self.sizes.head_dim} channels, {self.sizes.rope_scaling!r})"

    def rotate(self, x: np.ndarray, start: int, backend: Backend) -> np.ndarray:
        """x (tokens, heads, head_dim), the first token at position `start`; rounded to fp16 once."""
        size, places = self.sizes.rotated, slice(start, start + len(x))
        cos, sin = self.tables(places.start, places.stop)
        turned = backend.rotate(
            np.ascontiguousarray(x[..., :size]), cos[places], sin[places], self.sizes.rope_interleaved
        )
        return turned if size == x.shape[-1] else np.concatenate([turned, x[..., size:]], axis=-1)

    def tables(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """(cos, sin) float32 of positions 0 to at least end - 1, for a call with positions `start` to end - 1."""
        long = self._is_long(start, end)
        if long not in self._tables or end > len(self._tables[long][0]):
            before = len(self._tables[long][0]) if long in self._tables else 0  # doubles, so that decoding stays cheap
            self._tables[long] = self._make(max(end, min(2 * before + 512, self.sizes.context)), long)
        return self._tables[long]

    def _make(self, count: int, long: bool) -> tuple[np.ndarray, np.ndarray]:
        positions, sizes = np.arange(count), self.sizes
        if sizes.rope_scaling is None:
            cos, sin = rotary.rotary(positions, sizes.rotated, sizes.rope_base, "exact")
        else:
            frequencies = sizes.rope_scaling.frequencies(sizes.rotated, sizes.rope_base, long)
            cos, sin = rotary.rotary_of(positions, frequencies, rope_scaling.gain(sizes.rope_scaling))
        return cos.astype(np.float32), sin.astype(np.float32)

    def _is_long(self, start: int, end: int) -> bool:
        """Whether a call belongs to a long text; a text must not become long after its first call (D-arith-31)."""
        most = rope_scaling.longer(self.sizes.rope_scaling)
        if not most or end <= most:
            return False
        if 0 < start <= most:
            raise Refused(
                f"rotary positions: a text of more than {most} tokens uses other frequencies from its first token on, "
                f"got {start} tokens before and {end - start} more; give all of it in one call"
            )
        return True
