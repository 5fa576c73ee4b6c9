import numpy as np
import torch
from torch.utils.data import Dataset


class ShapesDataset(Dataset):
    """Grey images with a rectangle (class 1) and a disc (class 2) on a noisy background (class 0)."""

    def __init__(self, count, size=32, seed=0):
        self.count, self.size, self.seed = count, size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, idx):
        rng = np.random.RandomState(self.seed * 10000 + idx)
        mask = np.zeros((self.size, self.size), dtype=np.int64)
        y, x = rng.randint(0, self.size // 2, 2)
        mask[y:y + rng.randint(5, 14), x:x + rng.randint(5, 14)] = 1
        rows, cols = np.ogrid[:self.size, :self.size]
        cy, cx = rng.randint(8, self.size - 8, 2)
        mask[(rows - cy) ** 2 + (cols - cx) ** 2 < rng.randint(4, 7) ** 2] = 2
        image = np.array([0.1, 0.5, 0.9])[mask] + 0.15 * rng.randn(self.size, self.size)
        return {
            'image': torch.as_tensor(image[None].copy()).float().contiguous(),
            'mask': torch.as_tensor(mask.copy()).long().contiguous(),
        }
