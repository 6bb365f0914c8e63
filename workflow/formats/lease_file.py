"""The name of the lease of a run, and its times: `run/control/lease.py` and the guards of the nodes share them."""

LEASE_FILE = "lease.json"
# Between two beats of the supervisor.
BEAT_S = 2.0
# Without a new beat for so long something is wrong: the supervisor is dead, or its file system stalls. NFS may show a
# file some seconds late.
SILENCE_S = 10.0
# Without a new beat for so long it is dead for those who wait for it, and can ask nobody else: a file system may stall
# for minutes, and clocks of hosts do not differ by more.
DEAD_S = 600.0
