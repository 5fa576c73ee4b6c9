"""The compile child: runs in the compiler's environment (jax, jaxlib, libtpu), without torch."""
