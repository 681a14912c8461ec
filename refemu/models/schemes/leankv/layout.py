"""Constants of page layouts for heads of any size.

Paper: [leankv §6.2], which names Kvec, Kgroup, Vvec and Vgroup without numbers. Decisions: D-leankv-12.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from refemu.arith.checks import Refused
from refemu.formats.hetero_kv import HeteroKV
from refemu.formats.kv_page import UnifiedPage

USUAL = {"k_vec": 4, "k_group": 4, "v_vec": 2, "v_group": 8}  #: what fits heads of 128
HALVED = ("v_group", "k_group", "k_vec")  #: searched in this order, the last one first: it decides no bit of a result


def constants(
    head_size: int,
    pairs: Sequence[HeteroKV],
    given: Mapping[str, int | None],
    page_bytes: int | None,
    align: tuple[int, int],
) -> dict[str, int]:
    """The constants under which all `pairs` have a layout: those given, else the usual ones, halved until all fit.

    Kvec is halved first, then Kgroup, then Vgroup. Refuses, in the words of the format, where nothing fits, and names
    what would, where something was given.
    """
    fixed = {name: value for name, value in given.items() if value is not None}
    choices = [[fixed[name]] if name in fixed else _halves(USUAL[name]) for name in HALVED]
    vec = fixed.get("v_vec", USUAL["v_vec"])
    refused: Refused | None = None
    for one in product(*choices):
        found = {**dict(zip(HALVED, one, strict=True)), "v_vec": vec}
        try:
            for pair in pairs:
                UnifiedPage(head_size, pair, page_bytes, None, align=align, **found)
            return found
        except Refused as error:
            refused = refused or error
    assert refused is not None
    if not fixed:
        raise refused
    other = constants(head_size, pairs, {}, page_bytes, align)
    options = ", ".join(f"{name}={other[name]}" for name in USUAL)
    raise Refused(f"{refused}; {options} would do, which is what the scheme takes where none of them is given")


def _halves(value: int) -> list[int]:
    return [value >> n for n in range(value.bit_length())]
