"""The server that workers are forked from: what it imports, they need not."""

import subprocess
import sys

from refemu.golden.campaign import pool


def test_the_import_leaves_nothing_to_import_for_a_shard() -> None:
    """Rendering a shard of a unit that it warmed up brings no module of refemu, of NumPy or of numba any more."""
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
