-- A copy of the migrated template. Locks: the template, shared, so clones run side by side.
CREATE DATABASE {name} TEMPLATE {template} {strategy}
