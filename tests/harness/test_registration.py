"""Registration of model `refemu` with lm-evaluation-harness."""

import subprocess
import sys


def test_register_does_nothing_without_the_harness() -> None:
    """torch calls it at every import: nothing is loaded, and nothing raises."""
    code = "import sys; from refemu.harness import register; register(); sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
