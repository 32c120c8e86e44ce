"""Every role is a rank of an MPI job; the driver is a process beside rank 0."""
