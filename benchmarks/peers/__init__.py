"""The peers: scripts that do with torch alone, or ipyparallel, what we are measured in."""
