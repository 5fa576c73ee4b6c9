import torch

TEXT = (
    "the tide comes in and the tide goes out, and what it takes it brings about. "
    "a boat that waits upon the sand will wait for water, not for land. "
    "count the waves and count the hours, count the gulls above the towers. "
)


class Corpus(object):
    """Character ids of a text, split 9:1."""

    def __init__(self, repeats=30):
        text = TEXT * repeats
        self.chars = sorted(set(text))
        index = {c: i for i, c in enumerate(self.chars)}
        ids = torch.tensor([index[c] for c in text], dtype=torch.long)
        cut = len(ids) * 9 // 10
        self.train, self.valid = ids[:cut], ids[cut:]


def columns(ids, count):
    """Cut the text into `count` long columns, side by side; what is left over is dropped."""
    rows = len(ids) // count
    return ids[:rows * count].view(count, rows).t().contiguous()
