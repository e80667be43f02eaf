package postgres

// Reason gives tests the text that a failed task shows for an error.
var Reason = reason

// Waiting is how many tasks wait for a connection.
func (a *Action) Waiting() int {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return len(a.budget.waiting)
}
