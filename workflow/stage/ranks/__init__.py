"""The MPI ranks of a stage."""
