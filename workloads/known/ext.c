// In a library of its own, so that calls go through the procedure linkage table.
long ext(long seed) { return seed * 3 + 1; }
