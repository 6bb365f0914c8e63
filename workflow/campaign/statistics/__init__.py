"""The statistics of a campaign: intervals, tests and verdicts. Pure; docs/explanation/statistics.md explains each
figure."""
