"""The peers: scripts that do the same with torch alone, or with ipyparallel."""
