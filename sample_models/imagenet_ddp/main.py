import argparse
import os
import random
import shutil
import time
import warnings

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from resnet import resnet
from utils import AverageMeter, FakeImages, accuracy

parser = argparse.ArgumentParser(description='ImageNet-style training on made-up images')
parser.add_argument('-j', '--workers', default=0, type=int, help='data loading workers per node')
parser.add_argument('-b', '--batch-size', default=32, type=int, help='images per step on this node, all GPUs together')
parser.add_argument('--epochs', default=2, type=int)
parser.add_argument('--steps', default=20, type=int, help='stop after this many optimizer steps')
parser.add_argument('--lr', default=0.05, type=float)
parser.add_argument('--momentum', default=0.9, type=float)
parser.add_argument('--wd', default=1e-4, type=float, dest='weight_decay')
parser.add_argument('-p', '--print-freq', default=5, type=int)
parser.add_argument('--resume', default='', metavar='PATH', help='checkpoint to go on from')
parser.add_argument('--seed', default=None, type=int)
parser.add_argument('--gpu', default=None, type=int, help='use this GPU only')
parser.add_argument('--world-size', default=1, type=int, help='number of nodes')
parser.add_argument('--rank', default=0, type=int, help='rank of this node')
parser.add_argument('--dist-url', default='tcp://127.0.0.1:23456', help='where the processes meet')
parser.add_argument('--dist-backend', default='nccl')
parser.add_argument('--multiprocessing-distributed', action='store_true', help='one process for each GPU of the node')

best_acc1 = 0


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        cudnn.deterministic = True
        warnings.warn('a seed makes cudnn deterministic, which can be considerably slower')

    ngpus = torch.cuda.device_count()
    if args.dist_url == 'env://':
        # started by torchrun: this process is one of many
        args.distributed = True
        args.rank, args.world_size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
        main_worker(int(os.environ['LOCAL_RANK']), ngpus, args)
    elif args.multiprocessing_distributed:
        args.distributed = True
        args.world_size = ngpus * args.world_size
        mp.spawn(main_worker, nprocs=ngpus, args=(ngpus, args))
    else:
        args.distributed = False
        main_worker(args.gpu, ngpus, args)


def main_worker(gpu, ngpus, args):
    global best_acc1
    args.gpu = gpu
    if args.gpu is not None:
        print('Use GPU: {} for training'.format(args.gpu))

    if args.distributed:
        if args.multiprocessing_distributed:
            args.rank = args.rank * ngpus + gpu
        dist.init_process_group(backend=args.dist_backend, init_method=args.dist_url,
                                world_size=args.world_size, rank=args.rank)

    torch.manual_seed(args.seed or 0)
    model = resnet(num_classes=10)
    if args.distributed:
        torch.cuda.set_device(args.gpu)
        model.cuda(args.gpu)
        args.batch_size = args.batch_size // ngpus
        args.workers = (args.workers + ngpus - 1) // ngpus
        model = DistributedDataParallel(model, device_ids=[args.gpu])
    elif args.gpu is not None:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
    else:
        model = nn.DataParallel(model).cuda()

    criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)

    first_epoch = 0
    if args.resume:
        if args.gpu is None:
            checkpoint = torch.load(args.resume)
        else:
            checkpoint = torch.load(args.resume, map_location='cuda:{}'.format(args.gpu))
        first_epoch = checkpoint['epoch']
        best_acc1 = checkpoint['best_acc1']
        model.load_state_dict(checkpoint['state_dict'])
        optimizer.load_state_dict(checkpoint['optimizer'])

    cudnn.benchmark = True

    train_set, val_set = FakeImages(320, seed=0), FakeImages(64, seed=1)
    sampler = DistributedSampler(train_set) if args.distributed else None
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=(sampler is None), sampler=sampler,
                              num_workers=args.workers, pin_memory=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, num_workers=args.workers, pin_memory=True)

    done = 0
    for epoch in range(first_epoch, args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        done = train(train_loader, model, criterion, optimizer, epoch, done, args)
        acc1 = validate(val_loader, model, criterion, args)
        scheduler.step()

        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        # one process of each node writes
        if not args.distributed or args.rank % ngpus == 0:
            save_checkpoint({
                'epoch': epoch + 1,
                'state_dict': model.state_dict(),
                'best_acc1': best_acc1,
                'optimizer': optimizer.state_dict(),
            }, is_best)
        if done == args.steps:
            break

    if args.distributed:
        dist.destroy_process_group()


def train(loader, model, criterion, optimizer, epoch, done, args):
    gpu_time, data_time = AverageMeter('GPU ms', ':.1f'), AverageMeter('data s', ':.3f')
    losses, top1 = AverageMeter('loss', ':.4e'), AverageMeter('acc@1', ':.2f')
    start = torch.cuda.Event(enable_timing=True)
    stop = torch.cuda.Event(enable_timing=True)

    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        data_time.update(time.time() - end)
        images = images.cuda(args.gpu, non_blocking=True)
        target = target.cuda(args.gpu, non_blocking=True)

        start.record()
        output = model(images)
        loss = criterion(output, target)
        acc1, = accuracy(output, target, topk=(1,))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stop.record()
        torch.cuda.synchronize()
        gpu_time.update(start.elapsed_time(stop))
        end = time.time()

        print('step {} loss {}'.format(done, losses.val))
        if i % args.print_freq == 0:
            print('epoch {} [{}/{}]'.format(epoch, i + 1, len(loader)), gpu_time, data_time, losses, top1, sep='  ')
        done += 1
        if done == args.steps:
            break
    return done


def validate(loader, model, criterion, args):
    losses, top1 = AverageMeter('loss', ':.4e'), AverageMeter('acc@1', ':.2f')
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            images = images.cuda(args.gpu, non_blocking=True)
            target = target.cuda(args.gpu, non_blocking=True)
            output = model(images)
            acc1, = accuracy(output, target, topk=(1,))
            losses.update(criterion(output, target).item(), images.size(0))
            top1.update(acc1.item(), images.size(0))
    average = top1.avg
    if args.distributed:
        counts = torch.tensor([top1.sum, top1.count], dtype=torch.float32, device='cuda')
        dist.all_reduce(counts, op=dist.ReduceOp.SUM)
        average = (counts[0] / counts[1]).item()
    print('validation: {}  acc@1 {:.2f}'.format(losses, average))
    return average


def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, 'model_best.pth.tar')


if __name__ == '__main__':
    main()
