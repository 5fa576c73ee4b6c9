import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.fc1 = nn.Linear(16 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        return F.log_softmax(x, dim=1)


def digits(count, seed):
    """14x14 pictures in the manner of a seven-segment display, with noise."""
    segments = ['abcdef', 'bc', 'abged', 'abgcd', 'fgbc', 'afgcd', 'afgedc', 'abc', 'abcdefg', 'abcdfg']
    areas = {'a': (1, 3, 3, 11), 'g': (6, 8, 3, 11), 'd': (11, 13, 3, 11), 'f': (1, 7, 2, 4),
             'b': (1, 7, 10, 12), 'e': (7, 13, 2, 4), 'c': (7, 13, 10, 12)}
    labels = torch.arange(count) % 10
    images = 0.3 * torch.randn(count, 1, 14, 14, generator=torch.Generator().manual_seed(seed))
    for image, label in zip(images, labels.tolist()):
        for name in segments[label]:
            top, bottom, left, right = areas[name]
            image[0, top:bottom, left:right] += 1
    return TensorDataset(images, labels)


def train(args, model, device, train_loader, optimizer, epoch, done):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        print('step {} loss {}'.format(done, loss.item()))
        done += 1
        if done == args.steps:
            break
    return done


def test(model, device, test_loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction='sum').item()  # sum up batch loss
            pred = output.argmax(dim=1, keepdim=True)  # get the index of the max log-probability
            correct += pred.eq(target.view_as(pred)).sum().item()

    test_loss /= len(test_loader.dataset)
    print('\nTest set: Average loss: {:.4f}, Accuracy: {}/{}\n'.format(
        test_loss, correct, len(test_loader.dataset)))


def main():
    parser = argparse.ArgumentParser(description='Segment digits')
    parser.add_argument('--batch-size', type=int, default=40)
    parser.add_argument('--test-batch-size', type=int, default=100)
    parser.add_argument('--steps', type=int, default=20, metavar='N', help='optimizer steps (default: 20)')
    parser.add_argument('--lr', type=float, default=1.0, metavar='LR', help='learning rate (default: 1.0)')
    parser.add_argument('--gamma', type=float, default=0.7, metavar='M', help='Learning rate step gamma')
    parser.add_argument('--no-accel', action='store_true', help='disables accelerator')
    parser.add_argument('--seed', type=int, default=1, metavar='S', help='random seed (default: 1)')
    parser.add_argument('--save-model', action='store_true', help='For Saving the current Model')
    args = parser.parse_args()

    use_accel = not args.no_accel and torch.accelerator.is_available()

    torch.manual_seed(args.seed)

    if use_accel:
        device = torch.accelerator.current_accelerator()
    else:
        device = torch.device("cpu")

    train_kwargs = {'batch_size': args.batch_size, 'shuffle': True}
    test_kwargs = {'batch_size': args.test_batch_size}
    if use_accel:
        accel_kwargs = {'num_workers': 0, 'pin_memory': True}
        train_kwargs.update(accel_kwargs)
        test_kwargs.update(accel_kwargs)

    train_loader = DataLoader(digits(400, seed=1), **train_kwargs)
    test_loader = DataLoader(digits(200, seed=2), **test_kwargs)

    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)

    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    done = 0
    epoch = 1
    while done < args.steps:
        done = train(args, model, device, train_loader, optimizer, epoch, done)
        test(model, device, test_loader)
        scheduler.step()
        epoch += 1

    if args.save_model:
        torch.save(model.state_dict(), "digits_cnn.pt")


if __name__ == '__main__':
    main()
