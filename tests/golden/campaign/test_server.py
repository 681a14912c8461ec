"""The server that workers are forked from imports everything for them."""

import subprocess
import sys

from refemu.golden.campaign import pool


def test_server_imports_everything_that_shards_need() -> None:
    """Rendering a shard after the import loads no module of refemu, NumPy or numba."""
    code = f"""
import importlib, sys
importlib.import_module({pool.SERVER!r})
before = set(sys.modules)
from refemu.golden.campaign.shards import RandomShard
list(RandomShard("concat", "a4", 1, 1).render())
print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in ("refemu", "numpy", "numba")))
print("numba" in before)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert out.split("\n")[:2] == ["[]", "True"]
