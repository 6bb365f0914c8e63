"""The engine SHM: steps through memory that the ends of a stream share, for stages that run on one node."""
