"""Parts of the command line that only --help and the Tab key need."""
