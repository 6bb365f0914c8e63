"""The command line: one small function per verb. Only this package prints help and exits."""
