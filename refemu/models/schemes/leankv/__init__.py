"""The schemes of LeanKV."""
