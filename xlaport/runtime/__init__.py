"""What runs the user's programs: the runner of CUDA programs, verification, profiles, sharding. Needs the extra `xla`.

Nothing here imports the linter, and nothing of the linter imports this package.
"""
