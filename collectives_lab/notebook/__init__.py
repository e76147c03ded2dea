"""What a notebook has: `%%ranks`; a Run, a Report and a cell's output as HTML."""
