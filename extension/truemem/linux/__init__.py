"""What the kernel tells: /proc, cgroups, OOM kills, and who is who among the processes."""
