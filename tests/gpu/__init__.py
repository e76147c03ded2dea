"""What must hold on a machine with GPUs, as functions for pytest and for `run.py`."""
