"""What other libraries do with the vectors: one module a library.

Each has its title in the table, the packages whose versions the table has, the dtypes that it
computes in, and a function for each function of the vectors. What it lacks raises `CannotError`.
"""
