"""What several tests use: plans, runs, programs and the conditions that they wait for."""
