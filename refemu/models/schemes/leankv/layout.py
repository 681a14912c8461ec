"""Page layouts for heads of any size, and a memory manager for a model.

Paper: [leankv §6.2], which names Kvec, Kgroup, Vvec and Vgroup without numbers; [leankv §5.3]. Decisions: D-leankv-12
(constants), D-leankv-36 (cells of an entry).
"""

from collections.abc import Mapping, Sequence
from itertools import product

from refemu.arith.checks import Refused
from refemu.formats.leankv import hetero_kv, kv_layout
from refemu.formats.leankv.hetero_kv import HeteroKV
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.config import ModelConfig
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.units.leankv.page_manager import Shape
from refemu.units.leankv.paged_attention import Pages

USUAL = {"k_vec": 4, "k_group": 4, "v_vec": 2, "v_group": 8}  #: constants for heads of 128
HALVED = ("v_group", "k_group", "k_vec")  #: halved from the last to the first; no bit depends on it


def pages(config: LeanKvConfig, head_size: int) -> Pages:
    """The layouts of high and low pages for heads of this size; raises Refused for precisions without a layout."""
    pairs = [hetero_kv.find(name) for name in (config.high, config.low) if name]
    align = (config.align[0], config.align[1])
    sizes = constants(head_size, pairs, {name: getattr(config, name) for name in USUAL}, config.page_bytes, align)
    layouts = [UnifiedPage(head_size, pair, config.page_bytes, None, align=align, **sizes) for pair in pairs]
    high, low = layouts[0], layouts[1] if len(layouts) > 1 else None
    if low is not None and low.tokens < high.tokens:
        raise Refused(
            f"leankv: a low page must hold at least as many tokens as a high one, got {low.tokens} "
            f"{config.low} and {high.tokens} {config.high}"
        )
    return Pages(high, low, config.preset)


def shape(config: LeanKvConfig, sizes: ModelConfig, slots: int) -> Shape:
    """The memory manager of one worker for `slots` requests at a time."""
    layouts, max_len = pages(config, sizes.head_dim), config.max_len or sizes.context
    heads, tokens = sizes.kv_heads // config.workers, config.table_tokens or layouts.high.tokens
    if config.table_tokens is None and config.preset == "diffkv":  # the published code has one length for all pairs
        high = layouts.high
        fitting = kv_layout.tokens_in(sizes.head_dim, hetero_kv.K8V8, high.size, high.v_vec, high.align)
        tokens = min(tokens, fitting or tokens)
    cells = -(-max_len // tokens) + config.of("table_extra")
    return Shape(
        pages=config.num_pages or slots * sizes.blocks * heads * cells,
        layers=sizes.blocks,
        heads=heads,
        high_tokens=layouts.high.tokens,
        low_tokens=None if layouts.low is None else layouts.low.tokens,
        max_len=max_len,
        slots=slots,
        reserve_low=config.of("reserve_low"),
        table_extra=config.of("table_extra"),
        table_tokens=tokens,
        lazy_pages=config.of("lazy_pages"),
        scrub=config.scrub,
    )


def constants(
    head_size: int,
    pairs: Sequence[HeteroKV],
    wanted: Mapping[str, int | None],
    page_bytes: int | None,
    align: tuple[int, int],
) -> dict[str, int]:
    """Constants under which all `pairs` have a layout: the given ones, else the usual ones, halved until all fit.

    Kvec is halved first, then Kgroup, then Vgroup. If nothing fits, raises the format's error; if something was given,
    the error also names constants that fit.
    """
    fixed = {name: value for name, value in wanted.items() if value is not None}
    choices = [[fixed[name]] if name in fixed else _halves(USUAL[name]) for name in HALVED]
    vec = fixed.get("v_vec", USUAL["v_vec"])
    refused: Refused | None = None
    for combination in product(*choices):
        choice = {**dict(zip(HALVED, combination, strict=True)), "v_vec": vec}
        try:
            for pair in pairs:
                UnifiedPage(head_size, pair, page_bytes, None, align=align, **choice)
            return choice
        except Refused as error:
            refused = refused or error
    assert refused is not None
    if not fixed:
        raise refused
    other = constants(head_size, pairs, {}, page_bytes, align)
    options = ", ".join(f"{name}={other[name]}" for name in USUAL)
    raise Refused(f"{refused}; use {options}, the default")


def _halves(value: int) -> list[int]:
    return [value >> n for n in range(value.bit_length())]
