"""The program that is started for each stage, and the files in the stage's directory."""
