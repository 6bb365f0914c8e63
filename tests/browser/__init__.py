"""Pages in a real browser. A package, so that its browser ends with its last test: see `browser` in conftest.py."""
