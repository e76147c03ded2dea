"""The notebook's part: `%%ranks`; a Run, a Report and a cell's output as HTML."""
