import numpy as np
import torch


class TokenStream:
    """Each token is a fixed function of the one before it, plus a little noise."""

    def __init__(self, vocab_size, seed, length=20000):
        self.rng = np.random.default_rng(seed)
        noise = self.rng.integers(0, 3, size=length)
        self.tokens = np.zeros(length, dtype=np.int64)
        for t in range(1, length):
            self.tokens[t] = (5 * self.tokens[t - 1] + 1 + noise[t]) % vocab_size

    def batch(self, size, block):
        starts = self.rng.integers(0, len(self.tokens) - block - 1, size=size)
        rows = torch.from_numpy(np.stack([self.tokens[i:i + block + 1] for i in starts]))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
