"""No port has a keyword of Verilog, SystemVerilog or C as its name."""

import pytest

from refemu.arith.checks import Refused
from refemu.golden.rtl import keywords


def test_keyword_lists_are_complete() -> None:
    """Annex B of IEEE 1800-2017 has 248 words; C23 has 45 keywords without a leading underscore."""
    assert (len(keywords.SYSTEMVERILOG), len(keywords.C)) == (248, 45)


def test_names_of_the_papers_pass() -> None:
    keywords.require_names(["pair", "bias", "exponent", "base_int", "illegal", "acc_in"], "u")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param(
            ["a", "integer"], "u: a port name must not be a keyword of SystemVerilog, got 'integer'", id="verilog"
        ),
        pytest.param(["logic"], "keyword of SystemVerilog", id="systemverilog"),
        pytest.param(["volatile"], "keyword of C", id="c"),
        pytest.param(["Pair"], "lower-case word", id="capital"),
        pytest.param(["2x"], "lower-case word", id="digit"),
        pytest.param(["a", "b", "a"], "port names must differ, got 'a' twice", id="twice"),
    ],
)
def test_invalid_names_are_rejected(names: list[str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        keywords.require_names(names, "u")
