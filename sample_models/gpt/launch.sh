#!/usr/bin/env bash
# Four GPUs of one machine.
set -euo pipefail

export CUDA_VISIBLE_DEVICES=0,1,2,3
export NCCL_DEBUG=WARN
export OMP_NUM_THREADS=4

torchrun --standalone --nproc_per_node=4 train.py \
    --gradient-accumulation-steps 8 \
    --dtype bfloat16 "$@"
