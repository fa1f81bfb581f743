"""What holds processes: resource limits, namespaces, system calls, and the count of what they use."""
