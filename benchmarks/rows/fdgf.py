"""Plans of a layer of Llama 7B on Harmonia: the tiles of its dataflow controller, and the core's events."""

from collections.abc import Callable, Iterable

from benchmarks.pairs import Row, absolute
from refemu.units.harmonia import fdgf
from refemu.units.harmonia.harmonia_core import HarmoniaCore, plan

SIZES = 2048, 4096, 4096
SECONDS = 1.0  #: by the goal


def plans() -> list[Row]:
    """Tiles of whichever dataflow has fewer accesses; the events of a linear layer whose output is converted."""
    controller, (rows, inner, columns) = fdgf.FdgfController(), SIZES
    shape = HarmoniaCore("linear").shape._replace(rows=rows, inner=inner, columns=columns)
    what, goal = f"{rows} x {inner} x {columns}", "goal: 1 s"

    def tiles() -> int:
        return fetched(controller.tiles(rows, inner, columns))

    def events() -> int:
        plan.plan.cache_clear()
        return len(plan.plan(shape))

    accesses = int(controller.ema(rows, inner, columns, controller.choose(rows, inner, columns)))
    blocks = -(-rows // 8) * -(-columns // 32)
    return [
        absolute("FDGF-PLAN", f"fdgf.tiles {what}", goal, SECONDS, tiles, lambda found: found == accesses),
        absolute("FDGF-PLAN", f"plan of harmonia_core {what}", goal, SECONDS, events, lambda found: found > 3 * blocks),
    ]


def fetched(tiles: Iterable[fdgf.Tile]) -> int:
    """Elements fetched."""
    total = 0
    for tile in tiles:
        total += tile.elements * (tile.code in (fdgf.FETCH_A, fdgf.FETCH_B))
    return total


ROWS: dict[str, Callable[[], list[Row]]] = {"FDGF-PLAN": plans}
