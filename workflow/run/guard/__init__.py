"""The guard of a run on one node: a program that needs only the standard library."""
