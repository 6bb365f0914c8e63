"""A campaign from outside: its state, watched, ended, and started as a process of its own."""
