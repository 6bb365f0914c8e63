"""What happened: the report, the comparison of runs, and all that is drawn on terminals and pages."""
