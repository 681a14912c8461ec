"""Number formats of KLLM [kllm §III]."""
