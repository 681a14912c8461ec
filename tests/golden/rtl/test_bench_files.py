"""Files that a testbench reads with the set: words of registers and masks of rows, with the set's digest."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.compare import waivers
from refemu.golden.rtl import bench_files

VECTORS = Path(__file__).resolve().parents[3] / "vectors"


def test_mask_file_has_a_word_per_row() -> None:
    mac = golden.load(VECTORS / "fp16_mac-fma")
    left = waivers.bits(mac, ["D-kllm-3"])
    lines = bench_files.mask(mac, ["D-kllm-3"], left).decode().splitlines()

    assert lines[0] == f"// sha256 {mac.manifest['self_sha256']} by D-kllm-3"
    words = left["out.y"].astype(int) | left["out.overflow"].astype(int) << 16
    words |= left["st.product"].astype(int) << 17
    assert [int(line, 16) ^ 0x1FFFFFFFF for line in lines[1:]] == [*words.tolist(), 0]


def test_word_has_registers_after_a_row() -> None:
    """A ring of 5 words, head and tail of 48 bits, the first lowest."""
    pages = golden.load(VECTORS / "free_page_list-small")
    files = bench_files.registers(pages)
    words = [int(line, 16) for line in files["regs.mem"].decode().splitlines()[1:]]
    ring, head, tail = (pages.arrays[f"st.{name}"].astype(object) for name in ("ring", "head", "tail"))

    want = sum(ring[:, lane] << 32 * lane for lane in range(5)) + (head << 160) + (tail << 208)
    assert words == [*np.asarray(want).tolist(), (1 << 256) - 1]
    assert all(int(line, 16) == (1 << 256) - 1 for line in files["regs.mem.care"].decode().splitlines()[1:])


def test_set_without_registers_is_rejected() -> None:
    with pytest.raises(Refused, match="the set has no registers"):
        bench_files.registers(golden.load(VECTORS / "ovp_decoder-int4"))
