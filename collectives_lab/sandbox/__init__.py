"""What keeps a stranger's process apart: namespaces, Landlock, seccomp, limits."""
