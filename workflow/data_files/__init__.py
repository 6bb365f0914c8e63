"""Files of data on disk, read for `wf compare` and `wf look`: BP, HDF5, openPMD."""
