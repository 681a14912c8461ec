"""`refemu --version`: the version of refemu; with --json, also version details for bug reports."""

import argparse
import os
import platform
import sys
from importlib import metadata
from typing import Any, get_args

from refemu import __version__
from refemu.arith import selftest
from refemu.cli.output import print_json

#: distributions that compute, read or write data; null in the document if not installed
LIBRARIES = (
    *("numpy", "numba", "llvmlite", "scipy", "fastjsonschema", "filelock", "platformdirs", "rich"),
    *("gguf", "safetensors", "tokenizers", "matplotlib", "distributed", "argcomplete"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print the version; return 0."""
    if arguments.json:
        print_json("version", document())
    else:
        print(f"refemu {__version__}")
    return 0


def document() -> dict[str, Any]:
    """Versions, plug-ins, and the environment variables of refemu."""
    return {
        "refemu": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{sys.platform} {platform.machine()}",
        "arithmetic": selftest.kernel_path(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "plugins": _plugins(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("REFEMU_")},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _plugins() -> dict[str, str]:
    """Versions of distributions with plug-ins."""
    from refemu import plugins

    origins = [plug.origin for kind in get_args(plugins.Kind) for plug in plugins.plugs(kind)]
    return {origin.distribution: origin.version for origin in origins}
