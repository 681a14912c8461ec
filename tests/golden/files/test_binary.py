"""Raw files hold C order, little-endian, and nothing else."""

import numpy as np

from refemu.golden.files import binary


def test_bytes_are_little_endian_in_c_order() -> None:
    lanes = np.asfortranarray([[1, 2], [3, 0x0405]]).astype(">u2")

    assert {"out.x.bin": bytes([1, 0, 2, 0, 3, 0, 5, 4])} == binary.files({"out.x": lanes})
