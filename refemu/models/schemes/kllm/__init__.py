"""The schemes of KLLM."""
