"""`python -m local.deploy`: what `make archive`, `plan`, `deploy` and `destroy` run."""

from local.deploy.deployment import main

main()
