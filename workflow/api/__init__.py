"""The functions behind `workflow`, the door for notebooks and scripts; the command line uses them too."""
