"""Notebooks show tensors and pages as tables of plain text."""

import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from refemu import draw, formats
from refemu.formats import BFP8, K8V4, OVP_INT4, Affine, Codebook, GroupInt, KMeans, UnifiedPage, html
from refemu.formats.field import Field

VALUES = np.linspace(-1, 1, 64, dtype=np.float16).reshape(1, 64)
CODEBOOK = Codebook(2, np.array([-1, -0.25, 0.25, 1], np.float16))
TENSORS = {
    "OvpTensor": OVP_INT4.encode(np.array([48.0, 0, 5, -3])),
    "BfpTensor": BFP8.encode(VALUES),
    "KMeansTensor": KMeans(CODEBOOK).encode(VALUES),
    "AffineTensor": Affine(4).encode(VALUES),
    "GroupIntTensor": GroupInt(4, 32).encode(VALUES.astype(np.float32)),
}


def rows(text: str) -> list[list[str]]:
    """Cells of every row; rejects malformed markup."""
    tree = ElementTree.fromstring(f"<div>{text}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


@pytest.mark.parametrize("kind", TENSORS)
def test_tensor_shows_every_field(kind: str) -> None:
    tensor: Any = TENSORS[kind]
    shown = rows(tensor._repr_html_())

    assert type(tensor).__name__ == kind
    assert shown[0] == ["field", "bits", "shape", "codes (hex)", "meaning"]
    assert [(name, str(field.bits), field.meaning) for name, field in tensor.fields().items()] == [
        (row[0], row[1], row[4]) for row in shown[1:]
    ]


def test_codes_are_shown_in_hex() -> None:
    """The pairs (48, 0) and (5, -3) of [olive §4.2]."""
    assert rows(TENSORS["OvpTensor"]._repr_html_())[1][3] == "5 8 5 d"


@pytest.mark.parametrize(("bits", "wanted"), [(4, "0 1 2 …"), (5, "00 01 02 …"), (16, "0000 0001 0002 …")])
def test_long_fields_end_in_an_ellipsis(bits: int, wanted: str) -> None:
    assert wanted == html.codes(Field(np.arange(9), bits, False, ""), most=3)


def test_cells_are_escaped() -> None:
    assert rows(html.table("<title>", ["<b>"], [["&"]])) == [["<b>"], ["&"]]


@pytest.mark.parametrize("head_size", [64, 128])
def test_page_shows_every_byte_once(head_size: int) -> None:
    """[leankv Fig. 6]: the segments follow each other from byte 0 to the end of the page."""
    page = UnifiedPage(head_size, K8V4)
    text = page._repr_html_()
    shown = [[int(cell) for cell in row[1:4]] for row in rows(text)[1:]]

    assert [0, *(last + 1 for _, _, last in shown)] == [*(first for _, first, _ in shown), page.size]
    assert all(size == last - first + 1 for size, first, last in shown)
    assert text.endswith(draw.page(page))


def test_display_loads_nothing() -> None:
    code = (
        "import sys; from refemu.formats import OVP_INT4; t = OVP_INT4.encode([48.0, 0.0]); t._repr_html_();"
        "print(sorted({'numba', 'scipy', 'rich', 'IPython', 'hypothesis'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_base_class_needs_fields() -> None:
    with pytest.raises(NotImplementedError):
        html.Shown()._repr_html_()


def test_every_tensor_of_refemu_is_shown() -> None:
    assert set(TENSORS) == {name for name in dir(formats) if name.endswith("Tensor")}
