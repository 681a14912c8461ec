"""What a LeanKV session holds: going back, calls that raise, the pages of a step."""

from functools import cache
from typing import Any

import pytest

from refemu import models
from refemu.models import schemes
from refemu.models.runtime import Session
from refemu.units.unit import Cases
from tests.models.schemes.leankv.plain import CHANGES, small

SMALL = f"{CHANGES},align=4+4,page_bytes=112,window=4"
SCHEMES = [
    f"leankv:{SMALL},t_low=0.08,t_high=0.12",
    f"leankv:{SMALL},preset=diffkv,alpha_prune=0.5,alpha_quant=0.9",
    f"leankv:{SMALL},t_low=0.08,t_high=0.12,workers=2",
]
IDS = [3, 7, 1, 10, 7, 0, 2, 5, 5, 9, 4, 8, 1, 1, 6, 3, 10, 2, 7, 4]


@cache
def parts(scheme: str = SCHEMES[0]) -> Any:
    config: Any = schemes.parse(scheme)
    return models.prepare(small(), config)


def held(session: Session) -> list[Any]:
    """Everything that a session holds."""
    pools = session.caches.pools.pools
    return [len(session), session.counters, *((pool.images.tobytes(), pool.manager.snapshot()) for pool in pools)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rewind_goes_back_to_any_mark(scheme: str) -> None:
    """Pages, table, list and scores bit by bit, over several calls and to marks before marks."""
    session = models.session(parts(scheme))
    states, marks, logits = [held(session)], [session.mark()], []
    for first, last in ((0, 10), (10, 13), (13, 17), (17, 20)):
        logits.append(session.append(IDS[first:last]).tobytes())
        states.append(held(session))
        marks.append(session.mark())

    for back in (3, 2, 1, 0):
        session.rewind(marks[back])
        assert held(session) == states[back]
    assert [session.append(IDS[first:last]).tobytes() for first, last in ((0, 10), (10, 13), (13, 17), (17, 20))] == (
        logits
    )


@pytest.mark.parametrize("fails", [(0, "significance"), (1, "generation_compressor")], ids=["prompt", "step"])
def test_call_that_raises_in_layer_changes_nothing(fails: tuple[int, str]) -> None:
    def tap(layer: int, unit: str, case: Cases) -> None:
        if armed and (layer, unit) == fails:
            raise KeyboardInterrupt

    armed = False
    session = Session(parts(), tap)
    if fails[1] != "significance":
        session.append(IDS[:10])
        session.append(IDS[10:12])
    before, armed = held(session), True
    with pytest.raises(KeyboardInterrupt):
        session.append(IDS[len(session) : len(session) + 8])

    assert held(session) == before


def test_unreachable_undo_records_are_freed() -> None:
    session = models.session(parts())
    session.append(IDS[:10])
    now = session.caches.pools.now
    for token in IDS[10:]:
        session.append([token])

    assert len(list(now.all())) == 11
    assert repr(now) == "Past(10 passes ago)"
    assert repr(session.caches.pools.now) == "Past(0 passes ago)"


def test_passes_of_one_call_are_undone_together() -> None:
    """A call of many tokens keeps the pages once, whatever its length."""
    session = models.session(parts())
    session.append(IDS[:10])
    now, before = session.caches.pools.now, held(session)
    mark = session.mark()
    session.append(IDS[10:])

    assert repr(now) == "Past(1 passes ago)"
    assert len(session.caches.pools.now.undo) == 3  # what the taps know, one step, all the others
    session.rewind(mark)
    assert held(session) == before


def test_at_most_one_page_per_head_and_step() -> None:
    """D-leankv-34: [leankv §5.3] for the paper's policy; the published code takes up to two."""
    most = []
    for scheme in SCHEMES[:2]:
        session = models.session(parts(scheme))
        session.append(IDS[:10])
        session.append(IDS[10:])
        most.append(session.caches.pools.pools[0].manager.totals["step_pages"])

    assert most == [1, 2]


def test_names() -> None:
    caches = parts().caches()

    assert repr(caches[0]) == "LayerCache(0 tokens)"
    assert repr(caches).startswith("Held(2 layers, sequences (0,), Pools(1 workers, Pool(PageManager(")
    assert repr(parts().units).startswith("Units(LeanKvConfig(")
