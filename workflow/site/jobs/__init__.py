"""What schedulers say of a job: one file each for their commands, and for reading what those print."""
