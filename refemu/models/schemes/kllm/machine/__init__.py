"""KLLM's chip on a block of a model [kllm §IV-A, Fig. 6]."""
