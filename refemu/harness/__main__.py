"""`python -m refemu.harness`: the command `lm_eval` with model `refemu`, also where torch is not installed."""

from importlib import import_module

from refemu.harness import register_now

if __name__ == "__main__":
    register_now()
    import_module("lm_eval.__main__").cli_evaluate()
