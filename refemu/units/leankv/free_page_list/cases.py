"""Golden cases of free_page_list: [leankv Fig. 5] first, then empty and full lists, wraps, and any legal history."""

from collections.abc import Sequence

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, uniform

ALLOCATE, RECYCLE = 0, 1
FEW = 16  #: most pages of a list with a long history
COUNTED = 4097  #: pages that leave in a long history
Event = tuple[int, int, list[int]]  #: operation, count, ids of a recycle


class Owner:
    """Free and owned pages as plain lists, in order: generates histories that a list admits."""

    def __init__(self, pages: int) -> None:
        self.free: list[int] = list(range(pages))
        self.owned: list[int] = list[int]()

    def allocate(self, count: int) -> Event:
        """The first free pages, at most `count`."""
        count = min(count, len(self.free))
        self.owned += self.free[:count]
        self.free = self.free[count:]
        return ALLOCATE, count, []

    def recycle(self, wanted: Sequence[int]) -> Event:
        """The owned pages among `wanted`, each once."""
        ids = [page for page in dict.fromkeys(wanted) if page in self.owned]
        self.owned = [page for page in self.owned if page not in ids]
        self.free += ids
        return RECYCLE, len(ids), ids


def paper(config: Config) -> Blocks:
    pages = config["pages"]
    share, owner = pages // 4, Owner(pages)
    history = [owner.allocate(2 * share), owner.recycle([*range(share // 2, share), 2 * share - 1])]
    yield "[leankv Fig. 5] two heads get their pages at once, the surplus of both comes back", _inputs(pages, [history])


def edge(config: Config) -> Blocks:
    pages = config["pages"]
    owner, all_pages = Owner(pages), list(range(pages))
    history = [owner.allocate(pages), owner.allocate(0), owner.recycle(all_pages[::-1]), owner.recycle([])]
    history.append(owner.allocate(pages))
    yield "all pages leave, come back in another order, and leave again", _inputs(pages, [history]), "D-leankv-37"
    owner = Owner(pages)
    single = [event for page in range(pages) for event in (owner.allocate(1), owner.recycle([page]))]
    yield "one page at a time: head and tail wrap at every place of the ring", _inputs(pages, [single])
    rows = []
    for start in range(min(pages, 5)):
        owner = Owner(pages)
        begun = [owner.allocate(start), owner.recycle(all_pages[:start]), owner.allocate(pages - 1)]
        rows.append([*begun, owner.recycle(list(owner.owned[::2])), owner.allocate(1)])
    yield "the same from other starting places: the same ids relative to them", _inputs(pages, rows)
    if pages <= FEW:  # else few rows for many lanes
        owner, turns = Owner(pages), range(COUNTED // pages + 2)
        long = [each for _ in turns for each in (owner.allocate(pages), owner.recycle(owner.owned))]
        why = "the whole list leaves and comes back until head and tail have passed 255, 2,047 and 4,095"
        yield why, _inputs(pages, [long]), "D-leankv-37"
    rows = []
    for back in (all_pages[1:2], all_pages[1:]):
        owner = Owner(pages)
        rows.append([owner.allocate(pages), owner.recycle(back), owner.allocate(len(back))])
    yield "page 0 stays owned: page 1, then all others, come back and leave", _inputs(pages, rows)


def random(config: Config, seed: Seeds) -> Blocks:
    yield "any history", legal(config, uniform("free_page_list", config, (4, 24), seed))


def _inputs(pages: int, histories: Sequence[Sequence[Event]]) -> Inputs:
    """One case per history, all equally long."""
    rows = [[(op, count, *ids, *[0] * (pages - len(ids))) for op, count, ids in history] for history in histories]
    table = np.array(rows, np.int64)
    return {"op": table[..., 0], "count": table[..., 1], "ids": table[..., 2:]}


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` as events that a list admits: counts of free pages at most, ids of owned pages only."""
    pages, op = config["pages"], np.asarray(inputs["op"])
    count, ids = np.array(inputs["count"]), np.array(inputs["ids"])
    events = op.shape[-1]
    flat = op.reshape(-1, events), count.reshape(-1, events), ids.reshape(-1, events, pages)
    for device in range(len(flat[0])):
        owner = Owner(pages)
        for row in range(events):
            if flat[0][device, row] == ALLOCATE:
                flat[1][device, row] = owner.allocate(int(flat[1][device, row]) % (pages + 1))[1]
            else:
                wanted = flat[2][device, row].tolist()[: int(flat[1][device, row]) % (pages + 1)]
                _, flat[1][device, row], pages_back = owner.recycle(wanted)
                flat[2][device, row, : len(pages_back)] = pages_back
    return {"op": op, "count": flat[1].reshape(op.shape), "ids": flat[2].reshape(np.asarray(inputs["ids"]).shape)}
