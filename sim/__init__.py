"""The cluster: who is there when, how long a global step takes, what it costs. No torch here."""
