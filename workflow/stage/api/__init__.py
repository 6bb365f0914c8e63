"""What stage programs call: readers, writers, steps."""
