"""`python -m workflow.cli` is `wf`."""

from workflow.cli.main import main

if __name__ == "__main__":
    main()
