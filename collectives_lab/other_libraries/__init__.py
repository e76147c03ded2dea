"""The same verbs in other libraries: MPI and XLA, started and recorded."""
