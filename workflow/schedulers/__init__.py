"""The schedulers: what all of them have, one module for each, and the table of them (`schedulers.schedulers`)."""
