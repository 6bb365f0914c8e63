"""Reading and writing through SSC, the ADIOS2 engine for programs of one MPI launch line."""
