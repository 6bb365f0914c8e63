"""Do two runs, or two files, hold the same data?"""
