package dagrun

// PoolUse is what a task takes of a pool.
type PoolUse struct {
	Pool, Key string
	Weight    int
}
