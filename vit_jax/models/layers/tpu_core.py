"""Sizes of a TPU's core that the layers and kernels for it depend on.

Imports nothing, so that commands reject a bad value at once.
"""

# A register holds 8 rows of 128 numbers of 32 bits.
SUBLANES = 8
LANES = 128
# Vector memory that a call of a kernel may use: it gets 16 MiB, and the
# compiler needs some of it.
VMEM_BYTES = 13 * 2**20
