"""Who is joined to whom, and in which order: ports, streams, couplings, start order."""
