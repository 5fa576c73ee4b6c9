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


def dice_loss(probs, target, epsilon=1e-6):
    # probs and target: batch x classes x height x width
    inter = 2 * (probs * target).sum(dim=(2, 3))
    sets_sum = probs.sum(dim=(2, 3)) + target.sum(dim=(2, 3))
    return 1 - ((inter + epsilon) / (sets_sum + epsilon)).mean()


@torch.inference_mode()
def evaluate(net, dataloader, device, amp):
    net.eval()
    dice_score = 0
    with torch.autocast(device.type if device.type != 'mps' else 'cpu', enabled=amp):
        for batch in dataloader:
            image, mask_true = batch['image'], batch['mask']
            image = image.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            mask_true = mask_true.to(device=device, dtype=torch.long)
            mask_pred = F.one_hot(net(image).argmax(dim=1), net.n_classes).permute(0, 3, 1, 2).float()
            mask_true = F.one_hot(mask_true, net.n_classes).permute(0, 3, 1, 2).float()
            dice_score += 1 - dice_loss(mask_pred[:, 1:], mask_true[:, 1:])
    net.train()
    return dice_score / max(len(dataloader), 1)


def train_model(model, device, args):
    # 1. Create the data loaders
    loader_args = dict(batch_size=args.batch_size, num_workers=0, pin_memory=True)
    train_loader = DataLoader(ShapesDataset(80), shuffle=True, **loader_args)
    val_loader = DataLoader(ShapesDataset(16, seed=1), shuffle=False, drop_last=True, **loader_args)
    dir_checkpoint = Path(args.checkpoint_dir)

    logging.info(f'''Starting training:
        Batch size:      {args.batch_size}
        Learning rate:   {args.lr}
        Device:          {device.type}
        Mixed Precision: {args.amp}
    ''')

    # 2. Set up the optimizer, the loss, the learning rate scheduler and the loss scaling for AMP
    optimizer = optim.RMSprop(model.parameters(), lr=args.lr, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=5)  # goal: maximize Dice score
    grad_scaler = torch.cuda.amp.GradScaler(enabled=args.amp)
    criterion = nn.CrossEntropyLoss()
    global_step = 0
    epoch = 0

    # 3. Begin training
    while global_step < args.steps:
        epoch += 1
        model.train()
        for batch in train_loader:
            images, true_masks = batch['image'], batch['mask']
            assert images.shape[1] == model.n_channels, 'the network has another number of input channels'

            images = images.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            true_masks = true_masks.to(device=device, dtype=torch.long)

            with torch.autocast(device.type if device.type != 'mps' else 'cpu', enabled=args.amp):
                masks_pred = model(images)
                loss = criterion(masks_pred, true_masks)
                loss += dice_loss(
                    F.softmax(masks_pred, dim=1).float(),
                    F.one_hot(true_masks, model.n_classes).permute(0, 3, 1, 2).float(),
                )

            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()

            print(f'step {global_step} loss {loss.item()}')
            global_step += 1
            if global_step == args.steps:
                break

        val_score = evaluate(model, val_loader, device, args.amp)
        scheduler.step(val_score)
        logging.info('Validation Dice score: {}'.format(val_score))

        dir_checkpoint.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), str(dir_checkpoint / 'checkpoint_epoch{}.pth'.format(epoch)))
        logging.info(f'Checkpoint {epoch} saved!')


def get_args():
    parser = argparse.ArgumentParser(description='Train the UNet on images and target masks')
    parser.add_argument('--steps', type=int, default=20, help='Number of optimizer steps')
    parser.add_argument('--batch-size', '-b', type=int, default=8, help='Batch size')
    parser.add_argument('--lr', '-l', type=float, default=1e-4, help='Learning rate')
    parser.add_argument('--load', '-f', type=str, default=False, help='Load model from a .pth file')
    parser.add_argument('--amp', action='store_true', default=False, help='Use mixed precision')
    parser.add_argument('--gradient-clipping', type=float, default=1.0)
    parser.add_argument('--checkpoint-dir', default='checkpoints')
    parser.add_argument('--config', help='YAML file that sets any of the options above')
    args = parser.parse_args()
    if args.config:
        import yaml
        with open(args.config) as f:
            options = yaml.safe_load(f)
        parser.set_defaults(**options['train'])
        args = parser.parse_args()
    return args


if __name__ == '__main__':
    args = get_args()

    logging.basicConfig(level=logging.INFO, format='%(levelname)s: %(message)s')
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    logging.info(f'Using device {device}')

    model = UNet(n_channels=1, n_classes=3)
    model = model.to(memory_format=torch.channels_last)

    if args.load:
        state_dict = torch.load(args.load, map_location=device)
        model.load_state_dict(state_dict)
        logging.info(f'Model loaded from {args.load}')

    model.to(device=device)
    try:
        train_model(model, device, args)
    except torch.cuda.OutOfMemoryError:
        logging.error('Detected OutOfMemoryError! '
                      'Enabling checkpointing to reduce memory usage, but this slows down training. '
                      'Consider enabling AMP (--amp) for fast and memory efficient training')
        torch.cuda.empty_cache()
        model.use_checkpointing()
        train_model(model, device, args)
