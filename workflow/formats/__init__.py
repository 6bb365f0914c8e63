"""The files that one process writes and another one reads: one definition each, with a version.

Standard library only: a stage program imports this room on every rank.
"""
