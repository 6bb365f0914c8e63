"""The proof of the placement: before the stages start, checks where ranks run and that live streams deliver steps."""
