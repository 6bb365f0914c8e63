"""Starting, reaping and signalling the processes of a run."""
