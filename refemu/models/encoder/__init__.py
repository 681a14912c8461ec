"""BERT-like encoders: sizes, runtime, and a plain float32 forward pass."""
