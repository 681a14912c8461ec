"""Sanitizers for C that tests compile: a fault of memory or an undefined operation ends the program with a report."""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

#: memory that a short program leaves to its end is not a fault
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
#: for a library that Python loads, which would have to preload the address sanitizer
UNDEFINED = ("-fsanitize=undefined,bounds-strict", "-fno-sanitize-recover=all", "-g")


@cache
def flags(compiler: str | None, wanted: tuple[str, ...] = ADDRESS) -> list[str]:
    """Flags that a compiler and its linker accept; [] if it has no sanitizers."""
    if compiler is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n")
        command = [compiler, *wanted, source, "-o", source.with_suffix("")]
        works = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return list(wanted) if works else []
