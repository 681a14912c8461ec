"""Studies of KLLM."""
