"""The processes of ranks: start, handles, output and end."""
