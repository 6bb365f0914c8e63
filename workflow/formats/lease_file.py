"""The name of the lease of a run, and its times: `run/control/lease.py` and the guards of the nodes share them."""

LEASE_FILE = "lease.json"
# Between two beats of the supervisor.
BEAT_S = 2.0
# Without a new beat for so long the supervisor is dead. NFS may show a file some seconds late.
SILENCE_S = 10.0
