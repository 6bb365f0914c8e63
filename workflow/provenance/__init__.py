"""What a run was made from and with: versions, git, environment, checksums. Collected once, kept in provenance.json."""
