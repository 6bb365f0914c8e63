"""How both ends of each stream are configured: engine, transport, queue, aggregation, compression, distribution."""
