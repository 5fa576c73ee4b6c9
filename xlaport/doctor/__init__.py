"""Is this machine ready to run PyTorch on a TPU? Each check is a small function of `Surroundings` that gives `Check`s."""
