"""Variables, their selections, and the checks of what arrives."""
