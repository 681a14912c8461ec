"""The page: every byte in one section, a colour for each kind."""

import pytest

from refemu import draw
from refemu.formats import K2V4, K4V2, K8V4, HeteroKV, UnifiedPage
from refemu.formats.leankv.kv_page_map import byte_map
from tests.draw.shapes import SVG, boxes, tree


@pytest.mark.parametrize("pair", [K8V4, K4V2])
@pytest.mark.parametrize("head_size", [64, 128])
def test_sections_are_as_wide_as_their_bytes(head_size: int, pair: HeteroKV) -> None:
    layout = UnifiedPage(head_size, pair)
    svg = draw.page(layout)
    widths = [float(box.get("width", 0)) for box in tree(svg).iter(f"{SVG}rect") if box.get("height") == "38"]
    segments = byte_map(layout)

    assert len(widths) == len(segments)
    for width, segment in zip(widths, segments, strict=True):
        assert width == pytest.approx(segment.bytes * 464 / layout.size, abs=0.1)


def test_a_colour_means_one_kind_of_section() -> None:
    """Values are green in every pair of precisions (AUD-reach-8)."""
    for pair, groups in ((K8V4, 4), (K4V2, 4), (K2V4, 2)):
        layout = UnifiedPage(128, pair, k_group=groups)
        kinds = {box.about.partition(":")[0]: box.kind for box in boxes(draw.page(layout)) if box.about}
        assert kinds["keys"] == "key" and kinds["values"] == "val" and kinds["scores"] == "score"
        assert kinds["positions"] == "pos" and kinds["metadata of keys"] == "key_meta"
