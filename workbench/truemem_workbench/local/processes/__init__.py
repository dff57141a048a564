"""Processes as the kernel has them: started, limited in memory, frozen, killed."""
