"""Values of State as drawings write them."""

from typing import Any

import numpy as np


def half(word: int) -> str:
    """A word of float16."""
    return f"{float(np.uint16(word).view(np.float16)):.4g}"


def single(word: int) -> str:
    """A word of float32."""
    return f"{float(np.uint32(word & 0xFFFFFFFF).view(np.float32)):.4g}"


def brief(value: float, most: int = 7) -> str:
    """A number with four digits, fewer where its text would be longer than `most` letters; an integer in full."""
    texts = [str(value) if isinstance(value, int) else f"{value:.0f}"] if float(value).is_integer() else []
    texts += [_short(f"{value:.{digits}g}") for digits in (4, 3, 2, 1)]
    texts.append(_short(f"{value:.0e}"))
    return next((text for text in texts if len(text) <= most), texts[-1])


def _short(text: str) -> str:
    """A number whose power of ten has no sign and no zero that it does not need: 4e+09 is 4e9."""
    return text.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def bits(value: int, width: int) -> str:
    """A code in binary."""
    return f"{value & (1 << width) - 1:0{width}b}"


def listed(values: Any, most: int = 12) -> str:
    """The first values, and how many there are."""
    every = list(values)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(map(str, every[:most])) + more
