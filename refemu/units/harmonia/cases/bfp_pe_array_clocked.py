"""x [harmonia §IV]."""
def cases(config, kind, seed):
    return iter(())
def mark(config, inputs, result):
    return {}
def legal(config, inputs):
    return inputs
