"""Many runs from one file: its trials, their execution, the table of what was measured, statistics and the report."""
