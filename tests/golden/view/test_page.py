"""A page is one file whose data cannot end its HTML element."""

from refemu.golden.view.page import page
from tests.golden.view import reader


def test_data_that_looks_like_html_is_escaped() -> None:
    data = {"text": "</script><b>&amp;\u2028", "codes": {}}

    for name in ("step", "set"):
        assert reader.checked(page(name, "<i>title</i>", data)) == data
        assert b"<title>&lt;i&gt;title&lt;/i&gt;</title>" in page(name, "<i>title</i>", data)
