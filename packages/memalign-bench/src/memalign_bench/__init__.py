"""`memalign bench`: does a judge learn, how fast, at what cost, against everyone. Needs the extra `bench`."""
