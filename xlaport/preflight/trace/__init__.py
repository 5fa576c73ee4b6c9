"""The trace child: runs in the user's environment (torch, torch_xla) and writes a training step as a program.

Private interfaces of torch_xla 2.9 that it leans on are all in `lazy`.
"""
