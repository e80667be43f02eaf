package dagrun

// heap keeps tasks ordered by before. It stores the position of each task in the field that slot returns, so that any task
// can be removed.
type heap struct {
	tasks  []*task
	before func(a, b *task) bool
	slot   func(*task) *int32
}

func (h *heap) len() int { return len(h.tasks) }

// first returns the task before all others, or nil if the heap is empty.
func (h *heap) first() *task {
	if len(h.tasks) == 0 {
		return nil
	}
	return h.tasks[0]
}

func (h *heap) push(t *task) {
	h.tasks = append(h.tasks, t)
	h.up(len(h.tasks) - 1)
}

func (h *heap) remove(t *task) {
	i, last := int(*h.slot(t)), len(h.tasks)-1
	moved := h.tasks[last]
	h.tasks[last] = nil
	h.tasks = h.tasks[:last]
	if i == last {
		return
	}
	h.tasks[i] = moved
	h.down(i)
	h.up(int(*h.slot(moved)))
}

func (h *heap) up(i int) {
	t := h.tasks[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(t, h.tasks[parent]) {
			break
		}
		h.put(i, h.tasks[parent])
		i = parent
	}
	h.put(i, t)
}

func (h *heap) down(i int) {
	t := h.tasks[i]
	for {
		child := 2*i + 1
		if child >= len(h.tasks) {
			break
		}
		if right := child + 1; right < len(h.tasks) && h.before(h.tasks[right], h.tasks[child]) {
			child = right
		}
		if !h.before(h.tasks[child], t) {
			break
		}
		h.put(i, h.tasks[child])
		i = child
	}
	h.put(i, t)
}

func (h *heap) put(i int, t *task) {
	h.tasks[i] = t
	*h.slot(t) = int32(i)
}
