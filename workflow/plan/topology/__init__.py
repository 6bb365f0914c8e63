"""How stages are connected: ports, streams, couplings, and the order in which stages start."""
