"""Install Chromium and its driver by apt where they are missing, for the tests of pages; standard library only.

    python tools/chromium.py

Exit code 0 if both are there at the end. Otherwise says what to do.
"""

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "chromium-driver")


def main() -> None:
    if found():
        return
    root = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") and (not root or shutil.which("sudo")):
        print(f"installing Chromium (apt-get install {' '.join(PACKAGES)})", flush=True)
        quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"]
        install = [*root, *quiet, *PACKAGES]
        if not runs(install):
            runs([*root, "apt-get", "update", "-q"])  # a fresh machine has no lists
            runs(install)
    if not found():
        sys.exit(
            "refemu: no Chromium with chromedriver, and apt-get could not install them\n"
            f"        Debian: apt-get install {' '.join(PACKAGES)}"
        )


def found() -> bool:
    """Whether the browser and its driver are there."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


def runs(command: list[str]) -> bool:
    """Whether `command` succeeds."""
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    main()
