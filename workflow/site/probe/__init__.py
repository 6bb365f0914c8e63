"""What a compute node has, read on the node itself, and the site file that says it."""
