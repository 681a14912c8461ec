"""Number formats of LeanKV [leankv §4]."""
