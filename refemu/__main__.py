"""`python -m refemu`."""

import sys

from refemu.cli import main

sys.exit(main())
