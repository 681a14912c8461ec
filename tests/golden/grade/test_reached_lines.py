"""Lines that a stimulus reaches, and the time that a mutant may take."""

import sys
from pathlib import Path

import numpy as np

from refemu import units
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import reached_lines, reimport, slices
from refemu.golden.grade.answers import Answers
from refemu.golden.make.rows import Block, evaluate
from refemu.units.unit import Cases

SOURCE = """LIMIT = 3


def f(x, y=(
    LIMIT
)):
    if (
        x > LIMIT
    ):
        return -x
    for i in range(x):
        x += (
            i
        )
    try:
        y = 1
    except ValueError:
        y = 2
    match x:
        case 0:
            x = 1
    return x
"""


def test_every_line_belongs_to_one_statement(tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    ranges = reached_lines.statements(path)

    lines = SOURCE.splitlines()
    assert not {1, 4, 5} & set(ranges)  # run by an import
    shown = {lines[each.start - 1].strip(): len(each) for each in ranges.values()}
    assert shown["if ("] == 3 and shown["return -x"] == 1 and shown["x += ("] == 3 and shown["y = 2"] == 1
    assert shown["for i in range(x):"] == 1 and shown["x = 1"] == 1
    assert all(number in each for number, each in ranges.items())


def answered(answers: Answers, block: Block) -> Block:
    cases = Cases("edge", block.cases.why, block.cases.inputs)
    return evaluate(answers.unit, answers.config, cases, compiled_from=sys.maxsize)


def stimulus(*pairs: int) -> Answers:
    unit = units.find("ovp_decoder")
    inputs = {"pair": np.array(pairs), "bias": np.zeros(len(pairs), np.int64)}
    return answers_of.of_cases(unit, unit.config("int4"), [Cases("edge", "some pairs", inputs)])


def test_traced_lines_are_reached_by_stimulus() -> None:
    (file,) = reimport.sources(units.find("ovp_decoder"))
    every, zero = (reached_lines.executed(stimulus(*pairs), (file,), answered) for pairs in (range(256), (0x11,)))

    assert zero.lines < every.lines
    assert {name for name, _ in every.lines} == {str(file)}
    assert all(seconds >= reached_lines.LEAST for seconds in every.seconds)
    assert sys.gettrace() is None or "executed" not in repr(sys.gettrace())


def test_a_pool_is_tried_on_fewer_values() -> None:
    answers = stimulus(*range(16))
    spare = Answers(answers.unit, answers.config, answers.blocks, spare=True)
    assert reached_lines.most(spare) < reached_lines.most(answers) == slices.MOST
