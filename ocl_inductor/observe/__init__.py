"""What is told of the work: reports, profiles, diagnosis, the debug folder, explanations."""
