"""Campaigns, many runs described by one file: trials, execution, results, statistics and the report."""
