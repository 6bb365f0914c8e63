"""What starts the ranks of a stage: the launchers, and the wrapper of stages that share a launch line."""
