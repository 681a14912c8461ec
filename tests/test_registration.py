"""hypothesis knows the types of refemu, whichever of the two is imported first; neither loads the other."""

import subprocess
import sys

import pytest

DRAW = "from hypothesis import strategies as st; from refemu.formats import OvpTensor; "
DRAW += "print(st.from_type(OvpTensor).example().fields() is not None)"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "imports",
    [
        "import refemu.formats, hypothesis",
        "import hypothesis, refemu.formats",
        "import refemu.testing.types",
        "import refemu.units.olive.ovp_encoder, hypothesis.strategies",
    ],
)
def test_types_are_registered_in_any_order_of_imports(imports: str) -> None:
    assert python(f"{imports}; {DRAW}") == "True"


@pytest.mark.parametrize(
    ("imports", "absent"),
    [("import refemu.formats", "hypothesis"), ("import hypothesis.strategies", "refemu.formats")],
)
def test_registration_loads_neither(imports: str, absent: str) -> None:
    assert python(f"import sys; {imports}; print({absent!r} in sys.modules)") == "False"


def test_every_module_of_testing_is_imported_alone() -> None:
    """In either of these a circle through `refemu.formats` would leave a name undefined."""
    for name in ("types", "strategies", "blocks", "compare", "machines", "save", "plugin"):
        assert python(f"import refemu.testing.{name}; print('ok')") == "ok"
