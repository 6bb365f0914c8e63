"""Observes the stages by the files that they and ADIOS2 write."""
