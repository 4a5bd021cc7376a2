// ext, in a library of its own: it is called through a procedure linkage table.
long ext(long seed) { return seed * 3 + 1; }
