"""What `tools/generate_op_status.py` is made of. Needs torch, torch_xla and torch's test package `expecttest`."""
