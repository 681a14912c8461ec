"""How close models are to transformers, as the tests of the families measure it: docs/compared-with-transformers.md.

    make conformance-numbers

regenerates the table; the tests fail if it differs from their measurements.
"""

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refemu import models
from refemu.models.model import Model
from tests.conformance.hugging_face import logits, make
from tests.models import toy_decoder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compared-with-transformers.md"
HEAD = "| model | tokens | float64 forward | scheme `fp16` | share of the bound |"
SECOND = 1.5  #: the bounds are of first order; the rest is for the second


class Numbers(NamedTuple):
    """A row of the table. Differences are the largest of all logits, over the largest logit of transformers."""

    tokens: int
    double: float  #: of the tests' forward in float64
    fp16: float  #: of scheme `fp16`
    share: float  #: the largest part of its bound that a logit of scheme `fp16` takes, in percent

    def agrees(self, other: "Numbers") -> bool:
        """Whether a row says the same, to its digits; what float64 leaves depends on the machine's libraries."""
        near = abs(self.fp16 - other.fp16) <= 0.06 * other.fp16 and abs(self.share - other.share) <= 1
        return self.tokens == other.tokens and near and self.double <= 3 * max(other.double, 1e-15)

    def row(self, name: str) -> str:
        """The line of the table."""
        return f"| {name} | {self.tokens} | {self.double:.0e} | {self.fp16:.1e} | {self.share:.0f} % |"


class Compared(NamedTuple):
    """Logits of one model by three programs, and the bounds on those of scheme `fp16`."""

    model: Model
    wanted: np.ndarray  #: transformers in float64
    plain: np.ndarray  #: the tests' forward in float64
    found: np.ndarray  #: scheme `fp16`
    allowed: np.ndarray  #: what its roundings can do, to first order

    @property
    def numbers(self) -> Numbers:
        """Its row."""
        largest = float(np.abs(self.wanted).max())
        double, fp16 = (float(np.abs(each - self.wanted).max()) / largest for each in (self.plain, self.found))
        share = float((np.abs(self.found - self.plain) / (SECOND * self.allowed)).max())
        return Numbers(len(self.wanted), double, fp16, 100 * share)


def compare(kind: str, changes: dict[str, Any], ids: list[int], folder: Path) -> Compared:
    """A model that transformers makes and saves in a folder, and refemu loads."""
    theirs = make(kind, **changes)
    theirs.save_pretrained(folder)
    model = models.load(folder)
    found = models.run(model, ids).logits.astype(np.float64)
    wanted = logits(theirs, ids, "float64")
    return Compared(model, wanted, toy_decoder.forward(model, ids), found, toy_decoder.reach(model, ids))


def stated() -> dict[str, Numbers]:
    """The rows of docs/compared-with-transformers.md by model."""
    _, _, behind = PAGE.read_text("utf-8").partition(HEAD + "\n")
    rows: dict[str, Numbers] = {}
    for line in behind.splitlines()[1:]:
        match = re.fullmatch(r"\| (\S+) \| (\d+) \| (\S+) \| (\S+) \| (\d+) % \|", line)
        if match is None:
            break
        name, tokens, *numbers = match.groups()
        rows[name] = Numbers(int(tokens), *map(float, numbers))
    return rows


def cases() -> dict[str, tuple[str, dict[str, Any], list[int]]]:
    """Kind, settings and tokens of every model that is compared."""
    from tests.conformance import test_families, test_transformers

    older = {str(case.id): case.values for case in test_transformers.CASES}
    return {name: (kind, changes, test_transformers.IDS) for name, (kind, changes) in older.items()} | {
        name: (kind, changes, test_families.IDS) for name, (kind, changes, _) in test_families.CASES.items()
    }


def write() -> None:
    """Measure everything and write the table."""
    before, _, behind = PAGE.read_text("utf-8").partition(HEAD + "\n")
    rest = behind.splitlines(keepends=True)
    while rest and rest[0].startswith("|"):
        del rest[0]
    rows = []
    for name, (kind, changes, ids) in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compare(kind, changes, ids, Path(folder)).numbers.row(name) + "\n")
    PAGE.write_text("".join([before, HEAD, "\n|---|---|---|---|---|\n", *rows, *rest]), "utf-8")


if __name__ == "__main__":
    write()
