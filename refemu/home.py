"""Where refemu keeps what it fetched or compiled."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$REFEMU_HOME, or the user's cache folder for refemu."""
    home = os.environ.get("REFEMU_HOME")
    if home:
        return Path(home).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("refemu"))
