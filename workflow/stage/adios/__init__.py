"""Reading and writing through ADIOS2 engines."""
