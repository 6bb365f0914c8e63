"""The report of a run, and everything that is shown on terminals and pages."""
