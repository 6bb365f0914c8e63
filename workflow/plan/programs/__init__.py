"""What is started for each stage, and the files that it finds in its directory."""
