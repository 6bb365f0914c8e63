"""What to launch and real hosts → an argv, an environment and a binding. One module per launcher; nothing starts here."""
