"""What every test shares: hypothesis without chance, the versions under test, the real model."""

import os
from importlib import metadata
from typing import Any

import pytest
from hypothesis import settings

from tools import budget

LIBRARIES = ("numpy", "numba", "llvmlite", "scipy", "gguf", "safetensors", "tokenizers", "hypothesis")
LEVELS = ("REFEMU_", "NUMBA_", "NPY_", "OPENBLAS_")  #: of variables that choose between ways to the same bits

# Tests see what preparation computes, and write no gigabytes into the user's cache; those of `kept` turn it on.
os.environ["REFEMU_PREPARED"] = "0"

# The same examples in every run, and no time limit: a busy machine must not change a result.
settings.register_profile("refemu", derandomize=True, deadline=None, database=None)
settings.load_profile("refemu")


def pytest_report_header() -> list[str]:
    """Versions, printed at collection: if a bit changes, the first question is what else changed."""
    found = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    levels = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(LEVELS)]
    return [f"refemu {_version('refemu')}; {found}", f"set: {' '.join(levels) or 'nothing'}"]


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2-135M with its sha256 checked. Absent weights skip the test, and fail it where CI is set."""
    return _model("smollm2-135m")


@pytest.fixture(scope="session")
def minilm() -> Any:
    """all-MiniLM-L6-v2, as `smollm2`."""
    return _model("all-minilm-l6-v2")


def _model(name: str) -> Any:
    from refemu.models import load
    from refemu.models.fetch import store

    if store.path(name) is None:
        reason = f"the weights of {name} are not here; run: refemu models fetch {name}"
        (pytest.fail if os.environ.get("CI", "").lower() not in ("", "0", "false") else pytest.skip)(reason)
    return load(name)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def pytest_addoption(parser: pytest.Parser) -> None:
    budget.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(budget.Clock(config))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(budget.Table(config.getoption("--times")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    budget.mark_listed(items)  # before -m looks at marks
    budget.keep_skipped(config, items)
