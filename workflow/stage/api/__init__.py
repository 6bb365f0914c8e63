"""What stage programs call: open a stream, iterate over its steps, read and write variables."""
