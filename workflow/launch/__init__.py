"""What to launch, and real hosts → an argv and a binding. One module per launcher; nothing is started here."""
