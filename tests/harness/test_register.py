"""Registration of model `refemu` with lm-evaluation-harness."""

import subprocess
import sys

import pytest

from refemu import harness


def test_register_does_nothing_without_the_harness() -> None:
    """torch calls it at every import: nothing is loaded, and nothing raises."""
    code = "import sys; from refemu.harness import register; register(); sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore")
def test_registered_model_is_the_adapter() -> None:
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install -e '.[lm-eval]'")
    from lm_eval.api.registry import get_model

    harness.register_now()
    harness.register_now()

    assert get_model(harness.NAME).__name__ == "RefemuLM"
    assert get_model("dummy").__name__ == "DummyLM"
