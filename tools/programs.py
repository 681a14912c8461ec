"""Install missing programs with apt; standard library only.

    python tools/programs.py iverilog yosys

Exit code 0 if all are installed at the end; otherwise prints what to do.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

#: program, also its package's name unless PACKAGES has another -> display name, and how others get it
KNOWN = {
    "ccache": ("ccache", "macOS: brew install ccache   others: https://ccache.dev"),
    "chromedriver": ("ChromeDriver", "others: https://googlechromelabs.github.io/chrome-for-testing"),
    "chromium": ("Chromium", "macOS: brew install chromium   others: https://www.chromium.org"),
    "iverilog": (
        "Icarus Verilog",
        "macOS: brew install icarus-verilog   others: https://steveicarus.github.io/iverilog",
    ),
    "yosys": ("yosys", "macOS: brew install yosys   others: https://yosyshq.net/yosys"),
}
PACKAGES = {"chromedriver": "chromium-driver"}


def main(programs: Sequence[str]) -> None:
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        install(missing)
    missing = [name for name in missing if not shutil.which(name)]
    if missing:
        lines = [
            f"refemu: {KNOWN[name][0]} is missing, and apt-get could not install it\n"
            f"        Debian, Ubuntu: apt-get install {PACKAGES.get(name, name)}   {KNOWN[name][1]}"
            for name in missing
        ]
        sys.exit("\n".join(lines))


def install(programs: list[str]) -> None:
    """Install programs if apt-get exists and may be called."""
    root = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo", "-n"]
    if not shutil.which("apt-get") or (root and not shutil.which("sudo")):
        return
    print(f"installing {' and '.join(KNOWN[name][0] for name in programs)} (apt-get)", flush=True)
    packages = [PACKAGES.get(name, name) for name in programs]
    words = [
        *root,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-q",
        "--no-install-recommends",
    ]
    if not runs([*words, *packages]):
        runs([*root, "apt-get", "update", "-q"])  # a fresh machine has no lists
        runs([*words, *packages])


def runs(command: list[str]) -> bool:
    """Whether `command` succeeds."""
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    main(sys.argv[1:])
