"""Topics that land in tables: each offset once, whatever happens to the workers."""
