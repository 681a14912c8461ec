"""Transactions agree with the golden sets, singly and in rows; an invalid one does not change the state."""

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.serve import predictor as module
from refemu.golden.serve import server
from refemu.golden.serve.predictor import Predictor
from tests.golden import committed
from tests.golden.serve.pipes import cases, packed

SOME = (
    "ovp_decoder-int8",
    "fp16_mac-paper",
    "bfp_aligner-paper",
    "orizuru-n8",
    "olive_mac-wrap",
    "bfp_pe-paper",
    "index_norm-rms",
    "kv_compressor-pages",
    "kv_compressor-diffkv",
)


def predictor(name: str, **options: bool) -> Predictor:
    unit, _, config = name.partition("-")
    return Predictor(units.find(unit), config, **options)


def words(name: str, **values: int) -> bytes:
    """One transaction with some ports set, all lanes equal, and all other ports 0."""
    layout = predictor(name).layout_in
    row = [0] * len(layout.lsb)
    for place in layout.places:
        row[place.fields] = [values.get(place.port.name, 0)] * place.port.count
    return layout.packed(np.array([row], np.int64))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("options", [{}, {"registers": True, "care": True}], ids=["outputs", "all"])
def test_single_transactions_are_the_golden_rows(name: str, compiled: bool, options: dict[str, bool]) -> None:
    """The readable form answers, and without a state also the compiled form."""
    set_, unit = committed.read(name), predictor(name, **options)
    unit._compiled = compiled and not unit.stateful
    asked, answers = packed(unit.layout_in, set_), packed(unit.layout_out, set_)

    for first, rows in list(cases(set_))[:20]:
        unit.reset()
        for row in range(first, first + min(rows, 20)):
            assert unit.step(asked[row].tobytes()) == answers[row].tobytes(), row


@pytest.mark.parametrize("name", SOME)
def test_rows_continue_from_the_state(name: str) -> None:
    set_, unit = committed.read(name), predictor(name)
    asked, answers = packed(unit.layout_in, set_), packed(unit.layout_out, set_)

    for first, rows in list(cases(set_))[:20]:
        unit.reset()
        half = first + rows // 2
        got = unit.run(asked[first:half].tobytes()) + unit.run(asked[half : first + rows].tobytes())
        assert got == answers[first : first + rows].tobytes()


@pytest.mark.parametrize("compiled", [False, True])
def test_masks_say_which_bits_count(compiled: bool) -> None:
    unit = predictor("bfp_aligner-paper", care=True)
    unit._compiled = compiled
    place = {place.name: place for place in unit.layout_out.places}
    legal = words("bfp_aligner-paper", emax=31, m=4)

    for data, ones in ((legal, True), (words("bfp_aligner-paper", x=0x7C00, emax=31, m=4), False)):
        values = unit.layout_out.values(unit.step(data))[0]
        assert (values[place["care_mantissa"].fields] == (0x7FF if ones else 0)).all()
        assert (values[place["care_illegal"].fields] == 1).all()


def test_invalid_transaction_leaves_the_state() -> None:
    unit = predictor("bfp_pe-paper", registers=True)
    set_ = committed.read("bfp_pe-paper")
    asked, answers = packed(unit.layout_in, set_), packed(unit.layout_out, set_)
    first = next(first for first, rows in cases(set_) if rows > 2)
    unit.step(asked[first].tobytes())
    state = unit.device.state

    with pytest.raises(Refused, match=r"^bfp_pe"):
        unit.step(words("bfp_pe-paper", mode=3))
    assert unit.device.state == state
    with pytest.raises(Refused, match=r"^bfp_pe.*, in row 1 of 2"):
        unit.run(asked[first + 1].tobytes() + words("bfp_pe-paper", mode=3))
    assert unit.device.state == state
    assert unit.step(asked[first + 1].tobytes()) == answers[first + 1].tobytes()


def test_stream_rejects_as_the_readable_unit() -> None:
    """The compiled form of one device answers for kv_compressor; a missing victim is an error."""
    name = "kv_compressor-paper"
    set_, unit, readable = committed.read(name), predictor(name, registers=True), predictor(name, registers=True)
    readable._stream_class = readable._stream = None
    asked = packed(unit.layout_in, set_)
    first = next(first for first, rows in cases(set_) if rows > 2)
    missing = words(name, op=3, victim=7)

    assert unit._stream is not None
    for data in (asked[first], asked[first + 1]):
        assert unit.step(data.tobytes()) == readable.step(data.tobytes())
        said = []
        for each in (unit, readable):
            with pytest.raises(Refused, match=r"^kv_compressor: victim must be below") as told:
                each.step(missing)
            with pytest.raises(Refused, match="in row 1 of 2"):
                each.run(asked[first + 2].tobytes() + missing)
            said.append(str(told.value))
        assert said[0] == said[1]
    assert unit.step(asked[first + 2].tobytes()) == readable.step(asked[first + 2].tobytes())
    unit.reset()
    readable.reset()
    assert unit.step(asked[first].tobytes()) == readable.step(asked[first].tobytes())


def test_invalid_first_row_leaves_a_new_device() -> None:
    unit = predictor("bfp_pe-paper")
    with pytest.raises(Refused, match="in row 1 of 2"):
        unit.run(bytes(unit.layout_in.bytes) + words("bfp_pe-paper", mode=3))

    assert unit.device.state.index == -1


def test_limits_of_ports_hold_in_rows_and_singly() -> None:
    unit = predictor("bfp_aligner-paper")
    bad = words("bfp_aligner-paper", m=15)
    for compiled in (False, True):
        unit._compiled = compiled
        with pytest.raises(Refused, match=r"^bfp_aligner.*m.*15"):
            unit.step(bad)
    with pytest.raises(Refused, match=r"^bfp_aligner.*15 at index \(2,\)"):
        unit.run(2 * words("bfp_aligner-paper", m=8) + bad)


@pytest.mark.parametrize("compiled", [False, True])
def test_late_error_of_a_unit_is_reported(compiled: bool) -> None:
    """A norm of zeros has no divisor; the compiled form itself raises the error."""
    unit = predictor("index_norm-rms")
    unit._compiled = compiled
    for answer in (unit.step, unit.run):
        with pytest.raises(Refused, match=r"^index_norm"):
            answer(bytes(unit.layout_in.bytes))


@pytest.mark.parametrize("size", [0, 3, 5, 8])
def test_wrong_number_of_words_is_rejected(size: int) -> None:
    unit = predictor("ovp_decoder-int4")
    with pytest.raises(Refused, match=rf"ovp_decoder: a transaction must have 4 bytes, 1 words, got {size} bytes"):
        unit.step(bytes(size))


def test_partial_row_is_rejected() -> None:
    unit = predictor("fp16_mac-paper")

    assert unit.run(b"") == b""
    with pytest.raises(Refused, match="rows must have 8 bytes each, 2 words, got 12 bytes"):
        unit.run(bytes(12))


def test_slow_readable_form_is_replaced() -> None:
    assert predictor("orizuru-n16")._compiled
    assert not predictor("olive_mac-wrap")._compiled


@pytest.mark.parametrize("name", ["ovp_decoder-int8", "olive_mac-wrap", "bfp_pe-paper", "kv_compressor-pages"])
def test_rows_in_parts_give_equal_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts bound the memory of a frame. An error in a later part restores the state before the first."""
    whole, parts = predictor(name), predictor(name)
    set_ = committed.read(name)
    first, count = max(cases(set_), key=lambda case: case[1]) if whole.stateful else (0, 40)
    rows = [row.tobytes() for row in packed(whole.layout_in, set_)[first : first + count]]
    at_once = whole.run(b"".join(rows))
    monkeypatch.setattr(module, "FIELDS", 1)

    assert parts.run(b"".join(rows)) == at_once
    if name == "bfp_pe-paper":
        parts.reset()
        with pytest.raises(Refused, match=r"mode.*, in row 2 of 3"):
            parts.run(rows[0] + rows[1] + words(name, mode=3))
        assert parts.run(b"".join(rows)) == at_once


def test_frame_without_memory_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise MemoryError

    device = predictor("ovp_decoder-int8")
    monkeypatch.setattr(device, "run", fails)
    status, text = server.answer(device, server.RUN, 8, b"")
    assert (status, text) == (server.ERROR, b"serve: no memory for 8 bytes of rows; send fewer rows at once")
