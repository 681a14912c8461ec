"""Every bit of every lane, compared with devices written bit by bit."""

from functools import partial

from refemu.golden.faults import bits
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain
from tests.golden.grade.plain import Row


def stuck(name: str, lane: int, bit: int, level: int, row: Row) -> None:
    row[name][lane] = row[name][lane] & ~(1 << bit) | level << bit


def inverted(name: str, lane: int, bit: int, row: Row) -> None:
    row[name][lane] ^= 1 << bit


def test_every_fault_equals_a_written_device(blender: Answers, meter: Answers) -> None:
    for answers in (blender, meter):
        faults = plain.by_id(bits.faults, answers)
        for name, port in answers.ports.items():
            for lane in range(port.count):
                for bit in range(0, port.bits, 1 if port.bits < 20 else 13):
                    where = f"{name}/{lane}/{bit}"
                    for level in (0, 1):
                        device = plain.each(partial(stuck, name, lane, bit, level))
                        got = faults[f"stuck_at_{level}/{where}"].wrong(answers).tolist()
                        assert got == plain.wrong(answers, device), where
                    device = plain.each(partial(inverted, name, lane, bit))
                    assert faults[f"inverted/{where}"].wrong(answers).tolist() == plain.wrong(answers, device)


def test_bits_have_three_faults_and_outputs_wires(blender: Answers) -> None:
    ids = list(plain.by_id(bits.faults, blender))
    wires = [id for id in ids if id.startswith("crossed/") or id.count("/") > 3]
    assert len(ids) - len(wires) == 3 * (2 * 5 + 16 + 1)
    # all inverted, reversed, every two of 5 bits, neighbours of 16
    assert len(wires) == (2 + 10) + (2 + 15)


def test_masked_bit_detects_nothing(blender: Answers) -> None:
    fault = plain.by_id(bits.faults, blender)["inverted/out.ratio/0/3"]

    assert fault.wrong(blender).tolist() == (blender.care["out.ratio"][:, 0] != 0).tolist()
    assert 0 < fault.wrong(blender).sum() < blender.rows
