"""DiffKV's attention kernels, interpreted on a CPU, against paged attention: outputs bit for bit, probabilities nearly.

Quirk `lane_max` is on, as in that code. Its exponential is a C library's `expf`, not always the nearest float32.
"""

from typing import Any

import numpy as np
import pytest

from refemu.units.leankv import paged_attention
from refemu.units.leankv.paged_attention import EPSILON, Arithmetic, Pages
from refemu.units.leankv.paged_attention import compiled as paged_attention_compiled
from tests.conformance.test_leankv_pages import COMPILED, RUNS, Replay

ULPS = 4  #: one wrong exponential moves a whole sum
UNEQUAL = 157  #: probabilities that differ, of all runs
WAYS = [pytest.param(paged_attention.attend, id="unit"), pytest.param(paged_attention_compiled.attend, id="compiled")]


def arithmetic(fma: bool) -> Arithmetic:
    return Arithmetic(
        fma=fma, softmax_div="recip_mul", softmax_eps=EPSILON, lane_max=True, partition_tokens=4800, include_self=True
    )


def operands(replay: Replay, step: int) -> tuple[Pages, np.ndarray, np.ndarray, np.ndarray]:
    """Layouts, queries (S, H, G, F), table entries (S, H, L), lengths (S, H, 2) of one step."""
    queries = replay.data["d_query"][step]
    return (
        Pages(replay.high, replay.low, "diffkv"),
        queries.reshape(len(queries), replay.heads, replay.group, -1),
        replay.data["d_block_tables"][step][:, 0],
        replay.data["d_kv_len"][step][:, 0],
    )


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Float32 places between positive values."""
    return np.abs(a.view(np.int32).astype(np.int64) - b.view(np.int32))


def replayed(data: Any) -> Replay:
    """A run of the reference after its prompts."""
    replay = Replay(data, COMPILED)
    for head in replay.all_heads():
        replay.prompt(*head)
    return replay


def unequal(reference: Any, name: str) -> tuple[int, int]:
    """Walk through all steps of a run; how many probabilities there are, and how many are not the reference's."""
    replay = replayed(reference(f"leankv/{name}"))
    compared = differing = 0
    for step in range(len(replay.data["d_pos"])):
        for head in replay.all_heads():
            replay.step(step, *head)
        pages, q, cells, lengths = operands(replay, step)
        for fma, suffix in ((False, "nofma"), (True, "fma")):
            made = paged_attention_compiled.attend(pages, q, replay.images, cells, lengths, arithmetic(fma))
            expected = replay.data[f"d_out_{suffix}"][step]
            assert made.out.reshape(expected.shape).tobytes() == expected.tobytes(), (step, suffix)
            if not fma:
                scores = replay.data["d_scores"][step][..., : made.p.shape[-1]].reshape(made.p.shape)
                stored = np.arange(made.p.shape[-1]) < lengths.sum(axis=-1)[..., None, None]
                places = np.where(stored, distance(made.p, scores), 0)
                assert places.max() <= ULPS
                compared += int(np.broadcast_to(stored, places.shape).sum())
                differing += int(np.count_nonzero(places))
        for head in replay.all_heads():
            replay.attended(step, *head)
    return compared, differing


def test_every_step_equals_that_of_the_kernels(reference: Any) -> None:
    """D-leankv-41 to D-leankv-45: the order of the sums, fused or not, the maximum, the division. D-leankv-44: exp."""
    compared, differing = np.array([unequal(reference, name) for name in RUNS]).sum(axis=0).tolist()

    assert (compared, differing) == (66_222, UNEQUAL)


@pytest.mark.parametrize("attend", WAYS)
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("step", "which"), [(0, "step0"), (-1, "last")])
def test_first_and_last_step_on_the_reference_images(
    reference: Any, attend: Any, name: str, step: int, which: str
) -> None:
    """The images are the reference's own, so nothing of refemu but the attention takes part."""
    data = reference(f"leankv/{name}")
    replay = Replay(data, COMPILED)
    pages, q, cells, lengths = operands(replay, step)
    for fma, suffix in ((False, "nofma"), (True, "fma")):
        made = attend(pages, q, data[f"kv_{which}_after_decode"], cells, lengths, arithmetic(fma))
        assert made.out.tobytes() == data[f"d_out_{suffix}"][step].tobytes()


@pytest.mark.parametrize("module", [paged_attention, paged_attention_compiled], ids=["unit", "compiled"])
@pytest.mark.parametrize("name", RUNS)
def test_scores_after_a_step(reference: Any, module: Any, name: str) -> None:
    """With the reference's probabilities every word of every image is the reference's."""
    data = reference(f"leankv/{name}")
    replay = Replay(data, COMPILED)
    pages, q, cells, lengths = operands(replay, 0)
    images = data["kv_step0_after_decode"].copy()
    p = data["d_scores"][0].reshape(*q.shape[:3], -1)
    module.add_scores(pages, images, cells, lengths, p, data["d_pos"][0][:, None], include_self=True)

    assert np.array_equal(images, data["kv_step0_after_attn"])
    assert not np.array_equal(images, data["kv_step0_after_decode"])
