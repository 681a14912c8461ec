"""The end line and the ledger: rows that are lost or reordered are reported."""

import hashlib

import pytest

from refemu.arith.checks import Refused
from refemu.golden.compare.pipe_end import Ledger, end_line

ANSWERS = [b"00ff 1\n", b"0A_0b 2\n", b"7 x\n"]
WORDS = b"00ff\n0a0b\n7\n"
END = end_line(3, hashlib.sha256(WORDS).hexdigest())


def ledger(*parts: list[bytes] | bytes, rows: int | None = None) -> Ledger:
    """A ledger after answers (lists) and end lines (bytes)."""
    book = Ledger(rows)
    for part in parts:
        if isinstance(part, bytes):
            book.end(part)
        else:
            book.count(part)
    return book


def test_end_line_has_rows_and_digest() -> None:
    assert end_line(2, "a" * 64) == b"// end rows=2 sha256=" + b"a" * 64 + b"\n"


def test_complete_stream_misses_nothing() -> None:
    """In chunks of any size, with words in either case or with underscores, over several streams."""
    assert ledger(ANSWERS, END).lost() == ""
    assert ledger(ANSWERS[:1], ANSWERS[1:], END, ANSWERS, END).lost() == ""
    assert ledger(end_line(0, hashlib.sha256().hexdigest())).lost() == ""


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((ANSWERS[:2], END), "3 rows were sent, 2 answers came back"),
        (([*ANSWERS, b"7 x\n"], END), "3 rows were sent, 4 answers came back"),
        ((ANSWERS[::-1], END), "in a different order"),
        (([ANSWERS[0], b"0a0c 2\n", ANSWERS[2]], END), "their stimulus words differ from those sent"),
        ((ANSWERS,), "no end line came back after 3 answers"),
        ((ANSWERS, END, ANSWERS[:1]), "no end line came back after 1 answers"),
        ((ANSWERS[:1], END, ANSWERS, END), "3 rows were sent, 1 answers came back"),
    ],
)
def test_first_loss_is_reported(parts: tuple[list[bytes] | bytes, ...], message: str) -> None:
    """The first loss is reported, whatever follows."""
    assert message in ledger(*parts).lost()


def test_number_of_rows_replaces_the_end_line() -> None:
    assert ledger(ANSWERS, rows=3).lost() == ""
    assert ledger(ANSWERS, rows=4).lost() == "4 rows were sent (--rows), 3 answers came back"


@pytest.mark.parametrize("line", [b"// end\n", b"// end rows=3 sha256=12\n", b"// end rows=x sha256=" + b"0" * 64])
def test_invalid_comment_is_rejected(line: bytes) -> None:
    with pytest.raises(Refused, match="must be the end line"):
        Ledger().end(line)
