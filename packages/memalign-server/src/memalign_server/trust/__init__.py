"""How far the judge can be trusted: measured on answers that were given blind."""
