"""Whether SST over UCX can be tested here: it waits for ever where processes may not read each other's memory.

A skip would be a failure under CI, so the tests choose their ways by this, and the end of every test run says so.
"""

from __future__ import annotations

from workflow.site.this_machine import peer_memory

UCX_WORKS, SEEN = peer_memory()
LEFT_OUT = "" if UCX_WORKS else f"SST over UCX is not tested here, it would hang: {SEEN}"
# What `transport: auto` takes on one node with the ADIOS2 of `make adios2-mpi`.
FASTEST = "ucx" if UCX_WORKS else "rdma"
