"""When a node counts as lost. `workflow.run.nodes.lost_nodes` finds the nodes; the verdict waits for it."""

NODE_LOST_S = 10.0
"""A node is lost that has given no sign of life for so many seconds."""
