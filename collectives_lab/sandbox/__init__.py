"""The sandbox of a stranger's process: namespaces, Landlock, seccomp, limits."""
