-- Stores a verifier of the same password that a login derives in one round. Locks: the role.
ALTER ROLE {name} PASSWORD '{verifier}'
