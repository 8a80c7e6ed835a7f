"""`python -m hullmark`."""

from hullmark import main

main()
