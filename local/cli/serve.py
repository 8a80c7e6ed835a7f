"""`hullmark serve`: the whole cloud in one process."""
