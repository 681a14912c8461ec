"""What only the compiled form has: threads and progress."""

import numpy as np
import pytest

from refemu.formats import OVP_FLINT4, OVP_INT4
from refemu.formats.olive.compiled import ovp_search


@pytest.mark.parametrize("threads", [2, 3, 200])
@pytest.mark.parametrize(("shape", "per"), [((7, 64), "row"), ((2, 600), "tensor"), ((1, 30), "row")])
def test_bits_do_not_depend_on_threads(
    threads: int, shape: tuple[int, ...], per: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    alone = ovp_search.search(x, OVP_FLINT4, per)
    monkeypatch.setattr(ovp_search, "WORK", 1000)  # many small portions

    assert ovp_search.search(x, OVP_FLINT4, per, threads=threads).equals(alone)


def test_progress_counts_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovp_search, "WORK", 1000)
    seen: list[tuple[int, int]] = []
    x = np.random.default_rng(0).standard_normal((9, 16)).astype(np.float32)
    ovp_search.search(x, OVP_INT4, progress=lambda done, whole: seen.append((done, whole)))

    assert len(seen) == 9
    assert seen[-1] == (9 * 16 * 88, 9 * 16 * 88)
    assert seen == sorted(seen)
