"""The nodes of a run as its supervisor knows them: it starts their guards, and reads which of them are lost."""
