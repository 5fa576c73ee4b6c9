#!/bin/bash
# One node, all of its GPUs, one process per GPU.
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
export NCCL_IB_DISABLE=1

nvidia-smi --query-gpu=name,memory.total --format=csv

python main.py \
    --multiprocessing-distributed --world-size 1 --rank 0 \
    --dist-url tcp://127.0.0.1:23456 --dist-backend nccl \
    --batch-size 256 --seed 1 "$@"
