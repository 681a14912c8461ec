"""BERT-like encoders: sizes, runtime, a plain float32 forward."""
