"""One generation step of all KV heads of a layer, which share a pool of pages, each with its query heads.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]. The stages and their units are in steps.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.arith.checks import require_int
from refemu.formats.leankv.hetero_kv import PairName
from refemu.formats.leankv.kv_layout import ALIGN
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.cases import layer_step as layer_step_cases
from refemu.units.leankv.generation_compressor import Policy, ScoreRule
from refemu.units.leankv.kv_quantizer import Preset
from refemu.units.leankv.layer_step.registers import COUNTERS, State
from refemu.units.leankv.layer_step.steps import Steps
from refemu.units.leankv.paged_attention import EPSILON, PAPER, SoftmaxDiv, SumOrder
from refemu.units.leankv.significance import Gqa
from refemu.units.ports import Ports
from refemu.units.stepped import Result
from refemu.units.unit import Config, RunFunction, Unit


class LayerStep(Steps):
    """All KV heads of a layer: one memory manager, one pool, and in every head the units of `Head`.

    References
    ----------
    [leankv §4, §5.3, §6.1, §6.2]
    """

    name = "layer_step"

    def __init__(
        self,
        kv_heads: int = 3,
        head_size: int = 64,
        heads: int = 3,
        high: PairName = "K8V4",
        low: PairName | None = "K4V2",
        page_bytes: int | None = 384,
        pages: int = 24,
        max_len: int = 12,
        preset: Preset = "paper",
        policy: Policy = "algorithm1",
        score_rule: ScoreRule = "share",
        keep_percent: int = 100,
        score_queries: int | None = None,
        include_self: bool = False,
        epoch: bool = False,
        order: SumOrder = PAPER.order,
        fma: bool = PAPER.fma,
        softmax_div: SoftmaxDiv = PAPER.softmax_div,
        softmax_eps: float = PAPER.softmax_eps,
        lane_max: bool = PAPER.lane_max,
        partition_tokens: int = PAPER.partition_tokens,
        partition_score: bool = PAPER.partition_score,
        gqa: Gqa = PAPER.gqa,
        reserve_low: int = 0,
        table_extra: int = 1,
        table_tokens: int | None = None,
        lazy_pages: bool = True,
        scrub: bool = False,
        k_vec: int = UnifiedPage.k_vec,
        k_group: int = UnifiedPage.k_group,
        v_vec: int = UnifiedPage.v_vec,
        v_group: int = UnifiedPage.v_group,
        align: tuple[int, int] = ALIGN,
    ) -> None:
        """Configure heads, pages, decisions, attention and the memory manager.

        Parameters
        ----------
        kv_heads : int
            H, KV heads, 1 to 1024.
        head_size : int
            F, features of a key and of a value.
        heads : int
            G, query heads of a KV head, 1 to 1024.
        high : str
            Ready pair of precisions, "K8V4" say.
        low : str or None
            The low pair; None for one precision.
        page_bytes : int or None
            Bytes of a page.
        pages : int
            Pages of the pool.
        max_len : int
            Most tokens of a prompt, and what a table entry has cells for.
        preset : {"paper", "diffkv"}
            Preset of the codes.
        policy : {"algorithm1", "diffkv", "static"}
            Rule of the decisions, as for `GenerationCompressor`, like the following.
        score_rule : {"share", "cumulative"}
            What Algorithm 1 compares.
        keep_percent : int
            Budget of `static`.
        score_queries : int, optional
            Number of the prompt's last queries that a score was summed over; by default all.
        include_self : bool
            Whether a token's attention to itself counts.
        epoch : bool
            Positions are stored as the published code stores them.
        order : {"kernel", "sequential"}
            As for `Arithmetic`, like the following.
        fma : bool
            Products are added in one rounding.
        softmax_div : {"div", "recip_mul"}
            Division of the softmax.
        softmax_eps : float
            Added to the sum before it.
        lane_max : bool
            The maximum is that of slots 0, 4, 8, ... of the pages only.
        partition_tokens : int
            Tokens beyond which a head is cut into chunks; 0 = never.
        partition_score : bool
            p of token t is weighted as of chunk t // chunk.
        gqa : {"max", "mean"}
            Join of the query heads.
        reserve_low : int
            Extra pages of a prompt, as for `Shape`, like the following.
        table_extra : int
            Cells more than max_len / table_tokens.
        table_tokens : int, optional
            By default the tokens of a high page.
        lazy_pages : bool
            A page when a token needs it; else one wherever a section is full.
        scrub : bool
            Write -1 into cells that are no longer used.
        k_vec, k_group, v_vec, v_group : int
            Constants of the pages, as for `UnifiedPage`, like the following.
        align : tuple of 2 int
            Bytes.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown, or the pages cannot be laid out.
        """
        values = {
            "head_size": head_size,
            "heads": heads,
            "high": high,
            "low": low,
            "page_bytes": page_bytes,
            "pages": pages,
            "max_len": max_len,
            "preset": preset,
            "policy": policy,
            "score_rule": score_rule,
            "keep_percent": keep_percent,
            "score_queries": score_queries,
            "include_self": include_self,
            "epoch": epoch,
            "order": order,
            "fma": fma,
            "softmax_div": softmax_div,
            "softmax_eps": softmax_eps,
            "lane_max": lane_max,
            "partition_tokens": partition_tokens,
            "partition_score": partition_score,
            "gqa": gqa,
            "reserve_low": reserve_low,
            "table_extra": table_extra,
            "table_tokens": table_tokens,
            "lazy_pages": lazy_pages,
            "scrub": scrub,
            "k_vec": k_vec,
            "k_group": k_group,
            "v_vec": v_vec,
            "v_group": v_group,
            "align": align,
        }
        self._build(require_int(kv_heads, 1, 1 << 10, self.name, "kv_heads"), values)

    def step(
        self,
        op: int | None = None,
        prompt: int | None = None,
        keep_high: Sequence[int] | int | None = None,
        keep_low: Sequence[int] | int | None = None,
        section: Sequence[int] | int | None = None,
        score: Sequence[int] | int | None = None,
        position: Sequence[int] | int | None = None,
        key: Sequence[int] | None = None,
        value: Sequence[int] | None = None,
        q: Sequence[int] | None = None,
        window: int | None = None,
        thresholds: Sequence[int] | None = None,
    ) -> State:
        """Begin an operation with its first event; without inputs, execute the next event of a generation step.

        Operations are 0 load, 1 admit, 2 generation step, 3 finish. Refused, with nothing changed: a request while one
        is there or an operation without one, a token without a place, a step before all kept tokens are loaded, and
        what the units refuse.
        """
        return self._stepped(
            op=op,
            prompt=prompt,
            keep_high=keep_high,
            keep_low=keep_low,
            section=section,
            score=score,
            position=position,
            key=key,
            value=value,
            q=q,
            window=window,
            thresholds=thresholds,
        )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    return LayerStep(**config).ports


TINY: dict[str, Any] = {
    "head_size": 16,
    "high": "K8V4",
    "low": "K4V2",
    "page_bytes": 112,
    "preset": "paper",
    "k_vec": 1,
    "k_group": 4,
    "v_vec": 2,
    "v_group": 2,
    "align": (4, 4),
}  #: pages of few bytes, as small heads have them
HEAD: dict[str, Any] = {
    "kv_heads": 1,
    "head_size": 64,
    "heads": 3,
    "high": "K8V4",
    "page_bytes": 384,
    "pages": 8,
    "max_len": 12,
}  #: a head alone

UNIT: Unit[State, Result] = Unit(
    name="layer_step",
    paper="leankv §4 Algorithm 1, §5.3, §6.1, §6.2",
    meaning="generation steps of all KV heads of a layer",
    configs={
        "one": Config(kv_heads=3, heads=1, pages=18, max_len=10, **TINY),
        "three": Config(
            kv_heads=2,
            heads=3,
            head_size=64,
            high="K8V4",
            low="K4V2",
            page_bytes=384,
            pages=12,
            max_len=8,
            preset="paper",
        ),
        "eight": Config(kv_heads=2, heads=8, pages=8, max_len=8, **TINY),
        "head": Config(**HEAD, low="K4V2", preset="paper"),
        "head_one_precision": Config(**HEAD, low=None, preset="paper"),
        "head_diffkv": Config(
            **HEAD,
            low="K4V2",
            preset="diffkv",
            policy="diffkv",
            score_queries=64,
            include_self=True,
            softmax_div="recip_mul",
            softmax_eps=EPSILON,
            reserve_low=1,
            table_extra=2,
            lazy_pages=False,
        ),
    },
    ports=ports,
    unit_class=LayerStep,
    cases=layer_step_cases.cases,
    counters=COUNTERS,
    legal=layer_step_cases.legal,
    closes=layer_step_cases.closes,
)
run: RunFunction[Result] = UNIT.run
