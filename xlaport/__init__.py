"""xlaport: port PyTorch/CUDA training code to TPU, and prove what the port does."""

__version__ = "0.1.0"
