"""A component of the tests: it is declared, never run."""
