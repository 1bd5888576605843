"""Who may do what: identities, their permissions on NATS, their keys and certificates."""
