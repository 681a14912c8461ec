"""Other answers to decisions that units of several papers take."""
