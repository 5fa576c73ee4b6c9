"""What wrappers of torch for several GPUs become in a sharded program: their settings, where the model is divided, and the batches."""
