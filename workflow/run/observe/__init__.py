"""What the stages do, read from the files that they and ADIOS2 write."""
