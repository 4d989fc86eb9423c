"""One file per architecture: each declares an `ARCHITECTURE` and nothing else is needed."""
