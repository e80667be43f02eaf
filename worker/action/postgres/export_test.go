package postgres

// Waiting is how many tasks wait for a connection.
func (a *Action) Waiting() int {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return len(a.budget.waiting)
}
