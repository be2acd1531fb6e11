"""Long work: jobs in the database, the thread that does them, and what is told while they run."""
