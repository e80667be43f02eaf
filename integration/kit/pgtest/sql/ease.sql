-- Keeps the same password in a form that costs those who log in nearly nothing. Locks: the role.
ALTER ROLE {name} PASSWORD '{verifier}'
