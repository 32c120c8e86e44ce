"""The studies, one module each."""
