"""The TPU compiler's answer to a training step, on a machine without a TPU.

Three processes: this one, which imports neither torch nor jax; `trace`, which runs in the user's environment and writes
the step as a program; `compiler`, which runs in an environment of its own and compiles it with libtpu. They talk by files.
"""
