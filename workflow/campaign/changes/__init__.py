"""What changed between two campaigns: between machines, dates, or versions of a program; and the gate for CI."""
