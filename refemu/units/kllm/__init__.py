"""Hardware blocks of KLLM [kllm §IV]."""
