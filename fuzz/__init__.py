"""Random programs, compiled and compared with eager: ``python -m fuzz``, see docs/fuzzing.md."""
