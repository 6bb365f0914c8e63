"""Which nodes and cores each stage gets."""
