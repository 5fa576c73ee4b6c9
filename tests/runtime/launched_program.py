"""What torchrun starts once a rank: prints its rank, a sum over ranks, and what it draws."""

import os
import sys

import torch
import torch.distributed as dist
import torch_xla
import torch_xla.distributed.xla_backend  # noqa: F401


def main() -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group("xla", init_method="xla://")
    total = torch.tensor([float(rank)]).to("xla")
    dist.all_reduce(total)
    torch_xla.sync()
    assert int(os.environ["LOCAL_RANK"]) == rank == dist.get_rank()
    print("rank", rank, "of", os.environ["WORLD_SIZE"], "sum", total.item(), "given", *sys.argv[1:], flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
