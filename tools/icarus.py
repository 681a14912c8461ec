"""Install Icarus Verilog by apt where it is missing; standard library only.

    python tools/icarus.py

Exit code 0 if it is there at the end. Otherwise says what to do.
"""

import os
import shutil
import subprocess
import sys


def main() -> None:
    if shutil.which("iverilog"):
        return
    root = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") and (not root or shutil.which("sudo")):
        print("installing Icarus Verilog (apt-get install iverilog)", flush=True)
        install = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "iverilog"]
        if not runs(install):
            runs([*root, "apt-get", "update", "-q"])  # a fresh machine has no lists
            runs(install)
    if not shutil.which("iverilog"):
        sys.exit(
            "refemu: no Icarus Verilog, and apt-get could not install it\n"
            "        Debian, Ubuntu: apt-get install iverilog   macOS: brew install icarus-verilog   "
            "others: https://steveicarus.github.io/iverilog"
        )


def runs(command: list[str]) -> bool:
    """Whether `command` succeeds."""
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    main()
