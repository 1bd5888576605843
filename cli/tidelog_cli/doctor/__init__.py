"""`tidelog doctor`: looks at everything that can be seen from here, and says what to do."""
