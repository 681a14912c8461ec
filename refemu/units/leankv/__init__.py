"""Hardware blocks of LeanKV [leankv §5]."""
