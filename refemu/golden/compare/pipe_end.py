"""The end line of a stimulus stream, and the rows that its answer may lack.

A line is `// end rows=N sha256=D`: the number of stimulus words before it, and the digest of these words, each with a
newline. A device passes it through. A stream without an end line, such as that of a crashed device, does not pass.
"""

import hashlib
import re
from collections.abc import Sequence

from refemu.arith.checks import Refused

_LINE = re.compile(rb"// end rows=(\d{1,19}) sha256=([0-9a-f]{64})")


def end_line(rows: int, sha256: str) -> bytes:
    """The line after `rows` stimulus words."""
    return f"// end rows={rows} sha256={sha256}\n".encode()


class Ledger:
    """Counts answers and checks them against end lines, each of which covers the answers since the one before."""

    def __init__(self, rows: int | None = None) -> None:
        """rows: the total number of answers, which makes an end line optional."""
        self._rows = rows
        self._lost = ""
        self._total = 0
        self._begin()

    def _begin(self) -> None:
        self._open, self._words = 0, hashlib.sha256()

    def count(self, answers: Sequence[bytes]) -> None:
        """Count the lines `answers`, each of which begins with its stimulus word."""
        words = (line.split(None, 1)[0].lower().replace(b"_", b"") for line in answers)
        self._words.update(b"".join(word + b"\n" for word in words))
        self._open += len(answers)
        self._total += len(answers)

    def end(self, line: bytes) -> None:
        """Check the answers since the last end line against end line `line`. Refused: a line in another form."""
        read = _LINE.fullmatch(line.strip())
        if not read:
            raise Refused(
                "check: a line that begins with // must be the end line of `generate --stdout`, "
                f"`// end rows=N sha256=D`, got {line.strip()[:80]!r}"
            )
        sent, sha256 = int(read[1]), read[2].decode()
        if sent != self._open:
            self._keep(f"{sent} rows were sent, {self._open} answers came back")
        elif sha256 != self._words.hexdigest():
            self._keep(
                f"{sent} rows were sent and as many answers came back, but their stimulus words differ from those "
                "sent, or are in a different order"
            )
        self._begin()

    def lost(self) -> str:
        """Description of missing rows at the end of the stream, with a remedy; "" if none is missing."""
        if self._rows is not None and self._total != self._rows:
            self._keep(f"{self._rows} rows were sent (--rows), {self._total} answers came back")
        elif self._rows is None and self._open:
            self._keep(
                f"no end line came back after {self._open} answers: the device stopped early, or drops lines "
                "that begin with //. It must pass the last line of `generate --stdout`, `// end rows=N "
                "sha256=D`, through unchanged; where it cannot, give the number of rows sent: --rows N"
            )
        return self._lost

    def _keep(self, what: str) -> None:
        self._lost = self._lost or what
