"""HTTP, and only that: schemas, resources and problems over the use cases."""
