"""Which hosts, cores, memory, GPUs and time this process has been given, from each scheduler's own words."""
