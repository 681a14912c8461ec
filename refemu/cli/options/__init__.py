"""Options of every command; refemu/cli/arguments.py joins them."""
