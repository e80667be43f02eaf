-- An empty database, whatever was added to template1. Locks: template0, shared.
CREATE DATABASE {name} TEMPLATE template0 {strategy}
