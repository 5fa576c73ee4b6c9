import torch


class FakeImages(torch.utils.data.Dataset):
    """Noise with one bright band; its place and colour tell the class."""

    def __init__(self, count, size=24, seed=0):
        self.count, self.size, self.seed = count, size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 100003 + index)
        label = index % 10
        image = 0.5 * torch.randn(3, self.size, self.size, generator=generator)
        band = self.size // 5
        row = label % 5 * band
        image[label // 5, row:row + band, :] += 1.5
        return image, label


class AverageMeter(object):
    """The last value of a number and its average so far."""

    def __init__(self, name, fmt):
        self.name, self.fmt = name, fmt
        self.val = self.sum = self.count = 0

    @property
    def avg(self):
        return self.sum / max(1, self.count)

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n

    def __str__(self):
        return ('{} {' + self.fmt + '} ({' + self.fmt + '})').format(self.name, self.val, self.avg)


@torch.no_grad()
def accuracy(output, target, topk=(1,)):
    """Percentage of targets among the k highest outputs, for each k."""
    _, pred = output.topk(max(topk), dim=1)
    hits = pred.eq(target.view(-1, 1))
    return [hits[:, :k].any(dim=1).float().mean() * 100 for k in topk]
