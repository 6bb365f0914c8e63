"""Archived data as one page that draws them: choose a variable, step through, move a plane, compare two runs."""
