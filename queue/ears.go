package queue

// ears are the store's one LISTEN connection.
type ears struct{}

func newEars(*Store) *ears { return &ears{} }

func (*ears) close() {}
