"""Interpreted kernels wrap and overflow on purpose, as compiled ones do without a word."""

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
