import argparse
import logging
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader

from data import ShapesDataset
from unet import UNet

log = logging.getLogger('segmentation')


def one_hot(mask, classes):
    return F.one_hot(mask, classes).permute(0, 3, 1, 2).float()


def dice(probs, target, eps=1e-6):
    """Mean Dice coefficient; both arguments are batch x classes x height x width."""
    overlap = (probs * target).sum(dim=(2, 3))
    sizes = probs.sum(dim=(2, 3)) + target.sum(dim=(2, 3))
    return ((2 * overlap + eps) / (sizes + eps)).mean()


def to_device(batch, device):
    images = batch['image'].to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
    masks = batch['mask'].to(device=device, dtype=torch.long)
    return images, masks


@torch.inference_mode()
def evaluate(net, loader, device, amp):
    net.eval()
    score = 0
    with torch.autocast(device.type if device.type != 'mps' else 'cpu', enabled=amp):
        for batch in loader:
            images, masks = to_device(batch, device)
            pred = net(images).argmax(dim=1)
            # the background does not count
            score += dice(one_hot(pred, net.classes)[:, 1:], one_hot(masks, net.classes)[:, 1:])
    net.train()
    return score / len(loader)


def train(net, device, args, batch_size):
    options = dict(batch_size=batch_size, num_workers=0, pin_memory=True)
    train_loader = DataLoader(ShapesDataset(80), shuffle=True, **options)
    val_loader = DataLoader(ShapesDataset(16, seed=1), drop_last=True, **options)

    optimizer = optim.RMSprop(net.parameters(), lr=args.lr, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=5)
    scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    criterion = nn.CrossEntropyLoss()
    folder = Path(args.checkpoints)
    step = 0
    while step < args.steps:
        net.train()
        for batch in train_loader:
            images, masks = to_device(batch, device)
            with torch.autocast(device.type if device.type != 'mps' else 'cpu', enabled=args.amp):
                pred = net(images)
                loss = criterion(pred, masks)
                loss += 1 - dice(F.softmax(pred, dim=1).float(), one_hot(masks, net.classes))

            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            print(f'step {step} loss {loss.item()}')
            step += 1
            if step == args.steps:
                break

        score = evaluate(net, val_loader, device, args.amp)
        scheduler.step(score)
        log.info(f'Dice after {step} steps: {score:.4f}')
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(net.state_dict(), str(folder / f'step{step}.pth'))
    return folder / f'step{step}.pth'


def get_args():
    parser = argparse.ArgumentParser(description='Train a U-Net on pictures of rectangles and discs')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--batch-size', '-b', type=int, default=8)
    parser.add_argument('--lr', type=float, default=1e-4)
    parser.add_argument('--load', help='start from the weights in a .pth file')
    parser.add_argument('--amp', action='store_true', help='mixed precision')
    parser.add_argument('--checkpoints', default='checkpoints', help='folder to write to')
    parser.add_argument('--config', help='YAML file with defaults for the options above')
    args = parser.parse_args()
    if args.config:
        import yaml

        with open(args.config) as f:
            parser.set_defaults(**yaml.safe_load(f)['train'])
        args = parser.parse_args()
    return args


if __name__ == '__main__':
    args = get_args()
    logging.basicConfig(level=logging.INFO, format='%(message)s')
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    log.info(f'Using device {device}')

    net = UNet(channels=1, classes=3).to(memory_format=torch.channels_last)
    if args.load:
        net.load_state_dict(torch.load(args.load, map_location=device))
    net.to(device=device)

    try:
        saved = train(net, device, args, args.batch_size)
    except torch.cuda.OutOfMemoryError:
        log.error('Out of memory: once more with half the batch. --amp helps, too.')
        torch.cuda.empty_cache()
        saved = train(net, device, args, args.batch_size // 2)

    net.load_state_dict(torch.load(saved, map_location=device))
    test_loader = DataLoader(ShapesDataset(16, seed=2), batch_size=8)
    log.info(f'Dice of the saved model on test pictures: {evaluate(net, test_loader, device, args.amp):.4f}')
