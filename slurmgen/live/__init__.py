"""What a running job allows: a shell, a port, and the use of its GPUs."""
