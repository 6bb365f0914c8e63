"""Reading and writing through SSC, the ADIOS2 engine that couples the programs of one MPI launch line."""
