package storetest

// heap is a priority queue with the least item first.
type heap[T any] struct {
	less  func(a, b T) bool
	items []T
}

// first returns the least item; ok is false when the heap is empty.
func (h *heap[T]) first() (item T, ok bool) {
	if len(h.items) == 0 {
		return item, false
	}
	return h.items[0], true
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	for i := len(h.items) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(h.items[i], h.items[up]) {
			return
		}
		h.items[i], h.items[up] = h.items[up], h.items[i]
		i = up
	}
}

// pop removes and returns the least item. The heap must not be empty.
func (h *heap[T]) pop() T {
	item, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if h.less(h.items[down], h.items[least]) {
				least = down
			}
		}
		if least == i {
			return item
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
