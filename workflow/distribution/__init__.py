"""Which reader rank gets which part of an array; and how arrays are divided over ranks. Plain arithmetic.

The plan uses it to show what a strategy costs, `workflow.stage` to read by it.
"""
