"""Weights by canonical name, read from GGUF and safetensors files."""
