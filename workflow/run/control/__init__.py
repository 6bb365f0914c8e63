"""A run seen from other processes: whether its supervisor lives, what it does, how it is started and cancelled."""
