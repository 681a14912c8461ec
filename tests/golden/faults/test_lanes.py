"""Lanes, compared with devices written lane by lane."""

from functools import partial

from refemu.golden.faults import lanes
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain
from tests.golden.grade.plain import Row


def swapped(name: str, lane: int, row: Row) -> None:
    row[name][lane], row[name][lane + 1] = row[name][lane + 1], row[name][lane]


def frozen(name: str, lane: int, case: list[Row]) -> list[Row]:
    words = [row[name][lane] for row in case]
    for row, word in zip(case[1:], words, strict=False):
        row[name][lane] = word
    return case


def dead(name: str, lane: int, row: Row) -> None:
    row[name][lane] = 0


def copied(name: str, lane: int, row: Row) -> None:
    row[name][lane] = row[name][lane - 1]


def rotated(name: str, by: int, row: Row) -> None:
    row[name] = row[name][by:] + row[name][:by]


def test_every_fault_is_that_of_a_device(blender: Answers, meter: Answers) -> None:
    for answers, name, count in ((blender, "out.both", 2), (meter, "out.wide", 3)):
        faults = plain.by_id(lanes.faults, answers)
        wanted = {f"swapped/{name}/{lane}": plain.each(partial(swapped, name, lane)) for lane in range(count - 1)}
        wanted |= {f"frozen/{name}/{lane}": partial(frozen, name, lane) for lane in range(count)}
        wanted[f"copied/{name}/{count - 1}"] = plain.each(partial(copied, name, count - 1))
        wanted |= {f"dead/{name}/{count - 1}": plain.each(partial(dead, name, count - 1))}
        if count > 2:
            wanted[f"reversed/{name}"] = plain.each(lambda row, name=name: row[name].reverse())
            for by in (1, -1):
                wanted[f"rotated_{by}/{name}"] = plain.each(partial(rotated, name, by))

        assert set(faults) == set(wanted)
        for id, device in wanted.items():
            assert faults[id].wrong(answers).tolist() == plain.wrong(answers, device), id
            assert faults[id].wrong(answers).any(), id
