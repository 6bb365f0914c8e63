"""Runs in batch jobs: what is asked of the scheduler, the submission, and what has become of the job."""
