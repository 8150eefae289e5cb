"""`python -m scenarios` is `stageout`."""

from scenarios.cli import main

main()
