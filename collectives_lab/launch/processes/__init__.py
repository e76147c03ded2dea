"""How the processes of ranks are started, and what comes in from them."""
