"""What the supervisor of a run lets the guards of its nodes know by files: that it lives, which stages it has ended.

The lease is written by `run/control/lease.py`.
"""

LEASE_FILE = "lease.json"
# Between two beats of the supervisor.
BEAT_S = 2.0
# Without a new beat for so long the supervisor is dead. NFS may show a file some seconds late.
SILENCE_S = 10.0
# The settings files of the attempts of stages that are to end on all nodes, one in each line.
ENDED_FILE = "ended_stages"
