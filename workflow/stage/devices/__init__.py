"""Arrays in the memory of a device: from a stream to it and back, through pinned memory of the host."""
