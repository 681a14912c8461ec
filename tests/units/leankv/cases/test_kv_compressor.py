"""What the golden cases of the KV compressor must hold."""

import pytest

from refemu.units.leankv.kv_compressor import UNIT, KvCompressor


@pytest.mark.parametrize("name", UNIT.configs)
def test_both_pages_fill_and_low_token_overwritten(name: str) -> None:
    config = UNIT.configs[name]
    device = KvCompressor(**config)
    high, low = (pages * page.tokens for pages, page in zip(device.counts, device.pages, strict=True))
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]

    assert max(int(r.n_high.max()) for r in results) == high and max(int(r.n_low.max()) for r in results) == low
    assert any(r.requantized > r.n_low.max() and r.pruned for r in results)


def test_random_operations_use_every_kind() -> None:
    for block in UNIT.cases(UNIT.configs["paper"], "random", 0):
        assert set(block.inputs["op"].ravel().tolist()) == {0, 1, 2, 3}
