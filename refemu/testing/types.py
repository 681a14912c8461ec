"""Strategies for types of refemu, registered with hypothesis by importing this module.

`@given(...)` by annotation and `st.from_type` find them.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from refemu import formats
from refemu.formats import (
    AbFloat,
    Affine,
    AffineTensor,
    Bfp,
    BfpTensor,
    Codebook,
    Flint,
    GroupInt,
    GroupIntTensor,
    HeteroKV,
    IntFormat,
    KMeans,
    KMeansTensor,
    Ovp,
    OvpTensor,
    TopK,
    UnifiedPage,
)

SIZES = st.sampled_from((2, 16, 32, 34))  #: elements of a vector: one pair, a group, one and a part


def tensors(fmt: Any, size: int) -> st.SearchStrategy[Any]:
    """`blocks.tensors`, imported when drawn, since `blocks` imports units and a unit may import this module."""
    from refemu.testing import blocks

    return blocks.tensors(fmt, size)


def codebooks(bits: int) -> st.SearchStrategy[Codebook]:
    """`blocks.codebooks`, imported when drawn."""
    from refemu.testing import blocks

    return blocks.codebooks(bits)


def _ready(kind: type) -> Callable[[Any], st.SearchStrategy[Any]]:
    """The ready constants of a type."""
    return lambda _: st.sampled_from(
        [fmt for fmt in (*formats.constants().values(), *formats.blocks().values()) if isinstance(fmt, kind)]
    )


def _tensor(kind: type) -> Callable[[Any], st.SearchStrategy[Any]]:
    """Tensors of the formats that `st.from_type(kind)` draws."""
    return lambda _: st.tuples(st.from_type(kind), SIZES).flatmap(lambda drawn: tensors(drawn[0], drawn[1]))


def _affine(_: Any) -> st.SearchStrategy[Any]:
    return st.builds(Affine, st.sampled_from((8, 4, 2, 1)), zero=st.sampled_from(("neg_min", "min")))


def _kmeans(_: Any) -> st.SearchStrategy[Any]:
    outliers = st.none() | st.just(TopK(k=1))
    return st.builds(KMeans, st.integers(1, 4).flatmap(codebooks), outliers, preset=st.sampled_from(("paper", "exact")))


def _affine_tensor(_: Any) -> st.SearchStrategy[Any]:
    return st.from_type(Affine).flatmap(lambda fmt: tensors(fmt, 32))


def _kmeans_tensor(_: Any) -> st.SearchStrategy[Any]:
    return st.from_type(KMeans).flatmap(lambda fmt: tensors(fmt, 16))


def _page(_: Any) -> st.SearchStrategy[Any]:
    pairs = (formats.K8V8, formats.K8V4, formats.K4V4, formats.K4V2)
    return st.builds(UnifiedPage, st.sampled_from((64, 128, 256)), st.sampled_from(pairs))


STRATEGIES: dict[type, Callable[[Any], st.SearchStrategy[Any]]] = {
    **{kind: _ready(kind) for kind in (IntFormat, Flint, AbFloat, Ovp, Bfp, GroupInt, HeteroKV)},
    Affine: _affine,
    KMeans: _kmeans,
    Codebook: lambda _: st.integers(1, 4).flatmap(codebooks),
    UnifiedPage: _page,
    **{tensor: _tensor(kind) for tensor, kind in ((OvpTensor, Ovp), (BfpTensor, Bfp), (GroupIntTensor, GroupInt))},
    AffineTensor: _affine_tensor,
    KMeansTensor: _kmeans_tensor,
}

for _kind, _strategy in STRATEGIES.items():
    st.register_type_strategy(_kind, _strategy)
